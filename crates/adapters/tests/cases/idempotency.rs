use adapters::{Refused, RunsQuery, Submission};
use runs::Status;
use tokio::task::JoinSet;

use crate::kit::*;
use crate::world::{Log, World};

async fn count(log: &std::sync::Arc<dyn Log>) -> usize {
    log.runs(RunsQuery { limit: 100, ..RunsQuery::default() }, None).await.expect("the log answers").items.len()
}

pub(crate) async fn the_same_submission_leads_to_the_same_run(world: &dyn World) {
    let log = world.log();
    let sent = with_key("k", "f", submission("s", "x"));
    let first = log.submit(sent.clone()).await.expect("accepted");
    let again = log.submit(sent.clone()).await.expect("accepted");
    assert!(first.new && !again.new);
    assert_eq!((again.run_id, &again.session_id, again.status), (first.run_id, &first.session_id, Status::Pending));
    let mut turn = claim(&log, "a").await;
    assert_eq!(log.submit(sent.clone()).await.expect("accepted").status, Status::Running);
    turn.begin().await;
    turn.complete("c").await.expect("finished");
    let ended = log.submit(sent).await.expect("accepted");
    assert_eq!((ended.run_id, ended.status), (first.run_id, Status::Completed));

    // Without a session the key leads to the one that was made.
    let nameless = with_key("n", "f", Submission { session_id: None, ..submission("", "x") });
    let first = log.submit(nameless.clone()).await.expect("accepted");
    let again = log.submit(nameless).await.expect("accepted");
    assert_eq!((again.run_id, again.session_id), (first.run_id, first.session_id));
    assert_eq!(count(&log).await, 2);
}

pub(crate) async fn another_scope_is_refused(world: &dyn World) {
    let log = world.log();
    let sent = with_key("k", "f", of_user("ann", submission("s", "x")));
    log.submit(sent.clone()).await.expect("accepted");
    let others = [
        of_user("bob", sent.clone()),
        Submission { user_id: None, ..sent.clone() },
        of_agent("other", sent.clone()),
        Submission { session_id: Some("t".into()), ..sent.clone() },
        // Absent equals absent only.
        Submission { session_id: None, ..sent.clone() },
        // The scope is told before the input.
        with_key("k", "g", of_user("bob", sent)),
    ];
    for (n, other) in others.into_iter().enumerate() {
        let answer = log.submit(other).await;
        assert!(matches!(answer, Err(Refused::KeyScope)), "scope {n}: {answer:?}");
    }
    assert_eq!(count(&log).await, 1);
}

pub(crate) async fn other_input_is_refused(world: &dyn World) {
    let log = world.log();
    log.submit(with_key("k", "f", submission("s", "x"))).await.expect("accepted");
    for fingerprint in ["g", "", "f ", "F"] {
        let answer = log.submit(with_key("k", fingerprint, submission("s", "x"))).await;
        assert!(matches!(answer, Err(Refused::KeyInput)), "{fingerprint:?}: {answer:?}");
    }
    assert_eq!(count(&log).await, 1);
    assert!(log.submit(with_key("K", "f", submission("s", "x"))).await.expect("accepted").new, "a key is taken as it is");
}

pub(crate) async fn twenty_at_once_start_one_run(world: &dyn World) {
    let log = world.log();
    for session in [Some("s".to_owned()), None] {
        let before = count(&log).await;
        let mut at_once = JoinSet::new();
        for _ in 0..20 {
            let (log, session_id) = (log.clone(), session.clone());
            let key = format!("key of {session:?}");
            at_once.spawn(async move { log.submit(with_key(&key, "f", Submission { session_id, ..submission("", "x") })).await });
        }
        let accepted: Vec<_> = at_once.join_all().await.into_iter().map(|answer| answer.expect("accepted")).collect();
        assert!(accepted.iter().all(|one| (one.run_id, &one.session_id) == (accepted[0].run_id, &accepted[0].session_id)));
        assert_eq!(accepted.iter().filter(|one| one.new).count(), 1);
        assert_eq!(count(&log).await, before + 1);
    }
}

pub(crate) async fn a_refused_submission_leaves_no_key(world: &dyn World) {
    let log = world.log();
    log.submit(of_user("ann", submission("anns", "x"))).await.expect("accepted");
    let refused = log.submit(with_key("k", "f", submission("anns", "x"))).await;
    assert!(matches!(refused, Err(Refused::SessionNotFound)));
    // Had the key stayed, this would be another scope.
    assert!(log.submit(with_key("k", "g", submission("mine", "y"))).await.expect("accepted").new);
}

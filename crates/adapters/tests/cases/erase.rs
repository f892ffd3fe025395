use adapters::{AppendError, Erased, RunsQuery};
use runs::Status;

use crate::kit::*;
use crate::world::{Log, World};

async fn erase(log: &std::sync::Arc<dyn Log>, session: &str) -> Erased {
    log.erase(session, None).await.expect("the log answers")
}

async fn run_on(log: &std::sync::Arc<dyn Log>, host: &str) -> Turn {
    let mut turn = claim(log, host).await;
    turn.begin().await;
    turn.complete("c").await.expect("finished");
    turn
}

pub(crate) async fn an_unknown_session_is_told(world: &dyn World) {
    let log = world.log();
    log.submit(of_user("ann", submission("s", "x"))).await.expect("accepted");
    assert_eq!(erase(&log, "t").await, Erased::Unknown);
    assert_eq!(log.erase("s", Some(Some("bob"))).await.expect("the log answers"), Erased::Unknown);
    assert_eq!(log.erase("s", Some(None)).await.expect("the log answers"), Erased::Unknown);
    assert!(log.session("s", None).await.expect("the log answers").is_some());
}

pub(crate) async fn a_session_with_an_unended_run_is_busy(world: &dyn World) {
    let log = world.log();
    let run = accept(&log, "s", "1").await.run_id;
    assert_eq!(erase(&log, "s").await, Erased::Busy);
    let mut turn = claim(&log, "a").await;
    assert_eq!(erase(&log, "s").await, Erased::Busy);
    turn.begin().await;
    assert_eq!(erase(&log, "s").await, Erased::Busy);
    let waiting = accept(&log, "s", "2").await.run_id;
    turn.complete("c").await.expect("finished");
    assert_eq!(erase(&log, "s").await, Erased::Busy, "one has ended, another waits");
    assert_eq!((status(&log, run).await, status(&log, waiting).await), (Status::Completed, Status::Pending));
}

pub(crate) async fn an_erased_session_is_gone_with_all_of_it(world: &dyn World) {
    let log = world.log();
    let mut sent = with_key("k", "f", submission("s", "x"));
    sent.attachments.push(adapters::Attachment { name: "a".into(), media_type: "image/png".into(), sha256: "00".repeat(32), body: vec![1] });
    let run = log.submit(sent.clone()).await.expect("accepted").run_id;
    let other = accept(&log, "other", "y").await.run_id;
    let turn = run_on(&log, "a").await;
    assert_eq!(log.erase("s", None).await.expect("the log answers"), Erased::Gone);

    assert_eq!(log.run("echo", run, None).await.expect("the log answers"), None);
    assert_eq!(log.session("s", None).await.expect("the log answers"), None);
    assert_eq!(events(&log, run).await, []);
    assert_eq!(log.frames(run, 0, 10).await.expect("the log answers"), []);
    assert_eq!(log.attachments(run).await.expect("the log answers"), []);
    assert_eq!(log.cancel("echo", run, None).await.expect("the log answers"), None);
    let all = log.runs(RunsQuery { limit: 10, ..RunsQuery::default() }, None).await.expect("the log answers");
    assert_eq!(all.items.iter().map(|row| row.run_id).collect::<Vec<_>>(), [other]);
    assert_eq!(turn.heartbeat(LONG).await, []);
    assert_eq!(log.ended(&[run, other]).await.expect("the log answers"), [run]);
    let late = log.append(run, turn.run.seq + 3, turn.run.next_index + 1, &output(&["late\n"], 99)).await;
    assert!(matches!(late, Err(AppendError::Gone)), "{late:?}");
    assert_eq!(erase(&log, "s").await, Erased::Unknown);
    let again = log.submit(sent).await.expect("accepted");
    assert!(again.new && again.run_id != run, "the key went with the run");
}

pub(crate) async fn erasures_are_listed_per_host_until_forgotten(world: &dyn World) {
    let log = world.log();
    log.heartbeat(&[], &[seen("a"), seen("b"), seen("c")], LONG).await.expect("the log answers");
    let mut sessions = Vec::new();
    for name in ["s", "t"] {
        for host in ["a", "b"] {
            accept(&log, name, "x").await;
            sessions.push(run_on(&log, host).await.claim.session);
        }
        assert_eq!(erase(&log, name).await, Erased::Gone);
    }
    let (first, second) = (sessions[0], sessions[2]);
    for host in ["a", "b"] {
        let mut listed = log.erasures(host).await.expect("the log answers");
        listed.sort();
        assert_eq!(listed, [first, second], "host {host}");
    }
    log.forget(first, "a").await.expect("the log answers");
    log.forget(first, "a").await.expect("twice is once");
    assert_eq!(log.erasures("a").await.expect("the log answers"), [second]);
    assert_eq!(log.erasures("b").await.expect("the log answers").len(), 2, "the other host still has its things");
}

pub(crate) async fn an_erased_name_starts_afresh(world: &dyn World) {
    let log = world.log();
    accept(&log, "s", "x").await;
    let before = run_on(&log, "a").await.claim.session;
    assert_eq!(erase(&log, "s").await, Erased::Gone);
    // Also another owner may have the name now; nothing of the old session is in the new one.
    let run = log.submit(of_user("bob", submission("s", "y"))).await.expect("accepted").run_id;
    let turn = claim(&log, "b").await;
    assert_eq!((turn.claim.run_id, &turn.claim.checkpoint), (run, &None));
    assert_ne!(turn.claim.session, before);
}

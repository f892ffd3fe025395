//! How many runs may wait, and what counts them.

use adapters::{Refused, RunsQuery, Submission, Terms};
use runs::Status;
use tokio::task::JoinSet;

use crate::kit::*;
use crate::world::World;

fn limited(limit: u32, submission: Submission) -> Submission {
    Submission { terms: Terms { queue_limit: Some(limit), one_host: false }, ..submission }
}

pub(crate) async fn a_full_queue_refuses_and_nothing_is_left(world: &dyn World) {
    let log = world.log();
    for n in 0..3 {
        log.submit(limited(3, submission(&format!("s{n}"), "x"))).await.expect("room");
    }
    let refused = log.submit(limited(3, with_key("k", "f", submission("t", "x")))).await;
    assert!(matches!(refused, Err(Refused::QueueFull)), "{refused:?}");
    let none = log.submit(limited(0, submission("s0", "x"))).await;
    assert!(matches!(none, Err(Refused::QueueFull)), "{none:?}");
    assert_eq!(log.session("t", None).await.expect("the log answers"), None);
    assert_eq!(log.session("s0", None).await.expect("the log answers").expect("there").runs, 1);
    assert_eq!(log.runs(RunsQuery { limit: 10, ..RunsQuery::default() }, None).await.expect("the log answers").items.len(), 3);
    // Without a limit there is room, and the key that came with the refused one is free.
    assert!(log.submit(with_key("k", "g", submission("t", "y"))).await.expect("accepted").new);
}

pub(crate) async fn a_known_key_is_answered_when_the_queue_is_full(world: &dyn World) {
    let log = world.log();
    let sent = limited(1, with_key("k", "f", submission("s", "x")));
    let first = log.submit(sent.clone()).await.expect("room");
    let again = log.submit(sent.clone()).await.expect("a known key");
    assert_eq!((again.run_id, again.new), (first.run_id, false));
    // So are its refusals, and that of the session's owner, before it is looked how many wait.
    let other = log.submit(limited(1, with_key("k", "g", submission("s", "x")))).await;
    assert!(matches!(other, Err(Refused::KeyInput)), "{other:?}");
    let scope = log.submit(limited(1, with_key("k", "f", submission("t", "x")))).await;
    assert!(matches!(scope, Err(Refused::KeyScope)), "{scope:?}");
    let owner = log.submit(limited(1, of_user("ann", submission("s", "x")))).await;
    assert!(matches!(owner, Err(Refused::SessionNotFound)), "{owner:?}");
}

pub(crate) async fn what_is_claimed_cancelled_or_erased_waits_no_more(world: &dyn World) {
    let log = world.log();
    let two = |session: &str| limited(2, submission(session, "x"));
    log.submit(two("s")).await.expect("room");
    let second = log.submit(two("t")).await.expect("room").run_id;
    assert!(log.submit(two("u")).await.is_err());
    let mut turn = claim(&log, "a").await;
    log.submit(two("u")).await.expect("one was claimed");
    assert!(log.submit(two("v")).await.is_err());
    log.cancel("echo", second, None).await.expect("cancelled");
    log.submit(two("v")).await.expect("one was cancelled");
    assert!(log.submit(two("w")).await.is_err());
    // Ended and erased runs did not wait any more before.
    turn.begin().await;
    turn.complete("c").await.expect("finished");
    log.erase("s", None).await.expect("erased");
    log.erase("t", None).await.expect("erased");
    assert!(log.submit(two("w")).await.is_err());
    assert_eq!(log.stats().await.expect("the log answers").counts.pending, 2);
}

pub(crate) async fn the_overshoot_is_what_is_accepted_at_one_moment(world: &dyn World) {
    let log = world.log();
    let mut at_once = JoinSet::new();
    for n in 0..80 {
        let log = log.clone();
        at_once.spawn(async move { log.submit(limited(20, submission(&format!("s{n}"), "x"))).await });
    }
    let answers = at_once.join_all().await;
    let accepted = answers.iter().filter(|answer| answer.is_ok()).count();
    assert!(answers.iter().all(|answer| matches!(answer, Ok(_) | Err(Refused::QueueFull))), "{answers:?}");
    // The log is asked over eight connections: seven may not see each other when the last free place is taken.
    assert!((20..28).contains(&accepted), "{accepted}");
    let query = RunsQuery { status: Some(Status::Pending), limit: 100, ..RunsQuery::default() };
    assert_eq!(log.runs(query, None).await.expect("the log answers").items.len(), accepted);
}

pub(crate) async fn workers_of_two_hosts_need_checkpoints_that_both_read(world: &dyn World) {
    let log = world.log();
    let one_host = |submission: Submission| Submission { terms: Terms { queue_limit: Some(0), one_host: true }, ..submission };
    let terms = Terms { queue_limit: None, one_host: true };
    log.submit(with_key("k", "f", submission("s", "x"))).await.expect("accepted");
    log.heartbeat(&[], &[seen("a")], LONG).await.expect("the log answers");
    assert!(log.fit(terms).await.is_ok());
    log.heartbeat(&[], &[seen("b")], LONG).await.expect("the log answers");
    assert!(matches!(log.fit(terms).await, Err(Refused::ManyHosts)));
    assert!(log.fit(Terms::default()).await.is_ok(), "somebody said where checkpoints are");
    // Before a known key, an owner and the depth.
    for sent in [with_key("k", "f", submission("s", "x")), of_user("ann", submission("s", "x")), submission("t", "x")] {
        let refused = log.submit(one_host(sent)).await;
        assert!(matches!(refused, Err(Refused::ManyHosts)), "{refused:?}");
    }
    assert_eq!(log.session("t", None).await.expect("the log answers"), None);
    world.age(40_000).await;
    log.heartbeat(&[], &[seen("a")], LONG).await.expect("the log answers");
    assert!(log.submit(Submission { terms, ..submission("t", "x") }).await.expect("the other one is gone").new);
}

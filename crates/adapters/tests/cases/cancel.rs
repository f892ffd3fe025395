use adapters::CancelAnswer as Answer;
use runs::{Event, Status, decide};
use uuid::Uuid;

use crate::kit::*;
use crate::world::{Log, World};

/// Status, and whether a wish is in the log.
type Told = Option<(Status, bool)>;

const CANCELLED: Told = Some((Status::Cancelled, true));
const STOPPING: Told = Some((Status::Running, true));

async fn cancel(log: &std::sync::Arc<dyn Log>, run: Uuid) -> Told {
    told(log.cancel("echo", run, None).await.expect("the log answers"))
}

fn told(answer: Option<Answer>) -> Told {
    answer.map(|answer| (answer.status, answer.cancel_requested))
}

pub(crate) async fn a_waiting_run_is_cancelled_at_once_and_never_claimed(world: &dyn World) {
    let log = world.log();
    let accepted = accept(&log, "s", "x").await;
    let run = accepted.run_id;
    let answer = Answer { session: accepted.session, status: Status::Cancelled, cancel_requested: true };
    assert_eq!(log.cancel("echo", run, None).await.expect("the log answers"), Some(answer), "with the session to ring for");
    assert_eq!(kinds(&log, run).await, ["run.submitted", "cancel.requested", "run.cancelled"]);
    let row = row(&log, run).await;
    assert!(row.status == Status::Cancelled && row.ended_at.is_some() && row.started_at.is_none());
    assert_eq!(row.terminal, Some(decide::cancelled()));
    assert!(try_claim(&log, "a", LONG).await.is_none());
}

pub(crate) async fn a_waiting_run_behind_another_is_cancelled_and_the_other_goes_on(world: &dyn World) {
    let log = world.log();
    let first = accept(&log, "s", "1").await.run_id;
    let second = accept(&log, "s", "2").await.run_id;
    let third = accept(&log, "s", "3").await.run_id;
    let mut turn = claim(&log, "a").await;
    turn.begin().await;
    assert_eq!(cancel(&log, second).await, CANCELLED);
    assert_eq!(turn.heartbeat(LONG).await.len(), 1, "the first run's lease is still held");
    assert!(try_claim(&log, "b", LONG).await.is_none());
    turn.complete("c").await.expect("finished");
    assert_eq!(status(&log, first).await, Status::Completed);
    assert_eq!(claim(&log, "a").await.claim.run_id, third);
}

pub(crate) async fn a_claimed_run_without_a_sandbox_is_cancelled_and_its_lease_freed(world: &dyn World) {
    let log = world.log();
    let run = accept(&log, "s", "1").await.run_id;
    let next = accept(&log, "s", "2").await.run_id;
    let mut turn = claim(&log, "a").await;
    assert_eq!(cancel(&log, run).await, CANCELLED);
    assert!(is_taken(turn.request().await), "the holder's decision is out of date");
    assert_eq!(turn.heartbeat(LONG).await, []);
    assert_eq!(kinds(&log, run).await, ["run.submitted", "run.claimed", "cancel.requested", "run.cancelled"]);
    assert_eq!(claim(&log, "b").await.claim.run_id, next);
}

pub(crate) async fn a_run_with_a_sandbox_takes_the_wish_only(world: &dyn World) {
    for started in [false, true] {
        let log = world.log();
        let run = accept(&log, if started { "t" } else { "s" }, "x").await.run_id;
        let mut turn = claim(&log, "a").await;
        turn.request().await.expect("requested");
        if started {
            turn.start().await.expect("started");
        }
        assert_eq!(cancel(&log, run).await, STOPPING);
        assert_eq!(kinds(&log, run).await.last(), Some(&"cancel.requested"));
        assert_eq!(turn.heartbeat(LONG).await.len(), 1, "the holder holds it to the end");
        turn.look().await;
        assert!(turn.run.cancel_requested);
        turn.finish(vec![decide::cancelled()], None).await.expect("finished");
        assert_eq!(status(&log, run).await, Status::Cancelled);
    }
}

pub(crate) async fn between_attempts_a_wish_ends_the_run(world: &dyn World) {
    let log = world.log();
    let run = accept(&log, "s", "x").await.run_id;
    let mut turn = claim(&log, "a").await;
    turn.begin().await;
    let at = last_at(&log, run).await;
    turn.fail_attempt(at + 1_000_000).await.expect("failed");
    assert_eq!(cancel(&log, run).await, CANCELLED);
    assert_eq!(kinds(&log, run).await.split_off(4), ["attempt.failed", "cancel.requested", "run.cancelled"]);
    // What was held, and the time of the retry, were that run's: the next one waits for neither.
    let next = accept(&log, "s", "y").await.run_id;
    assert_eq!(claim(&log, "b").await.claim.run_id, next);
}

pub(crate) async fn an_ended_run_is_left_alone(world: &dyn World) {
    let log = world.log();
    let run = accept(&log, "s", "x").await.run_id;
    let mut turn = claim(&log, "a").await;
    turn.begin().await;
    turn.complete("c").await.expect("finished");
    let before = events(&log, run).await;
    assert_eq!(cancel(&log, run).await, Some((Status::Completed, false)));
    assert_eq!(events(&log, run).await, before);
}

pub(crate) async fn an_unknown_run_is_not_cancelled(world: &dyn World) {
    let log = world.log();
    let run = log.submit(of_user("ann", submission("s", "x"))).await.expect("accepted").run_id;
    assert_eq!(cancel(&log, Uuid::now_v7()).await, None);
    assert_eq!(log.cancel("other", run, None).await.expect("the log answers"), None);
    assert_eq!(log.cancel("echo", run, Some(Some("bob"))).await.expect("the log answers"), None);
    assert_eq!(log.cancel("echo", run, Some(None)).await.expect("the log answers"), None);
    assert_eq!(kinds(&log, run).await, ["run.submitted"]);
    assert_eq!(told(log.cancel("echo", run, Some(Some("ann"))).await.expect("the log answers")), CANCELLED);
}

pub(crate) async fn cancelling_twice_is_cancelling_once(world: &dyn World) {
    let log = world.log();
    let ended = accept(&log, "s", "x").await.run_id;
    assert_eq!((cancel(&log, ended).await, cancel(&log, ended).await), (CANCELLED, CANCELLED));
    let running = accept(&log, "t", "x").await.run_id;
    claim(&log, "a").await.begin().await;
    assert_eq!((cancel(&log, running).await, cancel(&log, running).await), (STOPPING, STOPPING));
    for run in [ended, running] {
        let wishes = events(&log, run).await.iter().filter(|recorded| recorded.event == Event::CancelRequested).count();
        assert_eq!(wishes, 1);
    }
}

pub(crate) async fn a_cancel_beside_a_fast_appender_ends_in_the_log(world: &dyn World) {
    let log = world.log();
    let run = accept(&log, "s", "x").await.run_id;
    let mut turn = claim(&log, "a").await;
    turn.begin().await;
    let (going, mut gone) = tokio::sync::watch::channel(0);
    let appender = tokio::spawn(async move {
        // As a worker does it: append, and look again only when the seq was taken.
        while !turn.run.cancel_requested {
            match turn.print(&["tick\n"]).await {
                Ok(_) => going.send_modify(|appended| *appended += 1),
                Err(taken) => {
                    assert!(is_taken::<()>(Err(taken)));
                    turn.look().await;
                }
            }
        }
        turn.finish(vec![decide::cancelled()], None).await.expect("finished");
    });
    gone.wait_for(|appended| *appended > 20).await.expect("the appender runs");
    assert_eq!(cancel(&log, run).await, STOPPING);
    let limit = std::time::Duration::from_secs(20);
    tokio::time::timeout(limit, appender).await.expect("the wish is seen").expect("the appender ends well");
    let log = events(&log, run).await;
    assert_eq!(log.iter().filter(|recorded| recorded.event == Event::CancelRequested).count(), 1);
    assert!(runs::Run::fold(&log).expect("a legal log").expect("there").phase == runs::Phase::Cancelled);
}

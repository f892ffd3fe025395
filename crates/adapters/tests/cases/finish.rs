use runs::{Event, Status};

use crate::kit::*;
use crate::world::World;

pub(crate) async fn a_finish_frees_the_lease_and_keeps_the_checkpoint(world: &dyn World) {
    let log = world.log();
    let first = accept(&log, "s", "1").await.run_id;
    let second = accept(&log, "s", "2").await.run_id;
    let mut turn = claim(&log, "a").await;
    turn.begin().await;
    turn.complete("checkpoint-1").await.expect("finished");
    assert_eq!(turn.heartbeat(LONG).await, [], "the lease is not held any more");
    let kinds = kinds(&log, first).await;
    assert_eq!(kinds[kinds.len() - 2..], ["checkpoint.saved", "run.completed"]);
    let row = row(&log, first).await;
    assert_eq!((row.status, row.terminal), (Status::Completed, Some(completed("done"))));
    assert_eq!(row.ended_at, Some(last_at(&log, first).await));

    // The next turn is any worker's, on any host: the sandbox of the first one is no reason to wait.
    let next = try_claim(&log, "b", LONG).await.expect("the session's next run");
    assert_eq!((next.run_id, next.checkpoint.as_deref()), (second, Some("checkpoint-1")));
    assert_eq!(next.conversation.as_deref(), Some("talk of checkpoint-1"));
    assert!(next.epoch > turn.claim.epoch && next.claim != turn.claim.claim);
}

pub(crate) async fn a_finish_without_a_checkpoint_keeps_the_one_before(world: &dyn World) {
    let log = world.log();
    for message in ["1", "2", "3"] {
        accept(&log, "s", message).await;
    }
    let mut turn = claim(&log, "a").await;
    turn.begin().await;
    turn.complete("checkpoint-1").await.expect("finished");
    let mut turn = claim(&log, "a").await;
    turn.begin().await;
    turn.finish(vec![failed("limit")], None).await.expect("finished");
    let next = claim(&log, "a").await.claim;
    assert_eq!((next.checkpoint.as_deref(), next.conversation.as_deref()), (Some("checkpoint-1"), Some("talk of checkpoint-1")));
}

pub(crate) async fn a_finish_after_a_cancel_slipped_in_changes_nothing(world: &dyn World) {
    let log = world.log();
    let run = accept(&log, "s", "1").await.run_id;
    accept(&log, "s", "2").await;
    let mut turn = claim(&log, "a").await;
    turn.begin().await;
    log.cancel("echo", run, None).await.expect("the log answers");
    let before = events(&log, run).await;
    assert!(is_taken(turn.complete("never").await));
    assert_eq!(events(&log, run).await, before);
    assert_eq!(status(&log, run).await, Status::Running);
    assert!(try_claim(&log, "b", LONG).await.is_none(), "the lease is still held");
    // A look later the same worker ends it, and the refused checkpoint is nowhere.
    turn.look().await;
    turn.finish(vec![runs::decide::cancelled()], None).await.expect("finished");
    assert_eq!(claim(&log, "a").await.claim.checkpoint, None);
}

pub(crate) async fn a_failed_turn_lets_the_next_one_start(world: &dyn World) {
    let log = world.log();
    let first = accept(&log, "s", "1").await.run_id;
    let second = accept(&log, "s", "2").await.run_id;
    let mut turn = claim(&log, "a").await;
    turn.begin().await;
    turn.print(&["x\n"]).await.expect("appended");
    let saved = Event::CheckpointSaved { checkpoint: "c".into(), bytes: 1, conversation: None };
    turn.finish(vec![saved, failed("exit 3")], Some("c")).await.expect("finished");
    let row = row(&log, first).await;
    assert_eq!((row.status, row.terminal), (Status::Error, Some(failed("exit 3"))));
    let next = claim(&log, "b").await.claim;
    assert_eq!((next.run_id, next.checkpoint.as_deref()), (second, Some("c")));
}

//! What operators see and do.

use adapters::queue::{Counts, QueueError};
use adapters::{Attachment, Cursor, Submission};
use runs::{Event, InputFile, Status};
use uuid::Uuid;

use crate::kit::*;
use crate::world::World;

pub(crate) async fn runs_are_counted_by_status_and_the_oldest_is_told(world: &dyn World) {
    let log = world.log();
    let counts = async || log.stats().await.expect("the log answers").counts;
    let empty = log.stats().await.expect("the log answers");
    assert_eq!((empty.counts, empty.oldest), (Counts::default(), None));
    for session in ["a", "b", "c", "d", "e"] {
        accept(&log, session, "x").await;
    }
    let stats = log.stats().await.expect("the log answers");
    assert!(stats.oldest.is_some_and(|oldest| oldest <= stats.now) && stats.counts == Counts { pending: 5, ..Counts::default() }, "{stats:?}");
    let mut completes = claim(&log, "a").await;
    completes.begin().await;
    completes.complete("c").await.expect("finished");
    let mut fails = claim(&log, "a").await;
    fails.begin().await;
    fails.finish(vec![failed("exit 3")], None).await.expect("finished");
    let running = claim(&log, "a").await;
    let cancelled = accept(&log, "f", "x").await.run_id;
    log.cancel("echo", cancelled, None).await.expect("cancelled");
    assert_eq!(counts().await, Counts { pending: 2, running: 1, completed: 1, error: 1, cancelled: 1 });
    let oldest = log.stats().await.expect("the log answers").oldest;
    let waiting = log.jobs(Some(Status::Pending), None, 10).await.expect("the log answers").items;
    assert_eq!(oldest, waiting.last().map(|job| job.created_at));
    // A session that is erased takes its runs out of the counts.
    log.erase("f", None).await.expect("erased");
    assert_eq!(counts().await.cancelled, 0);
    drop(running);
    log.upkeep().await.expect("kept up");
    assert_eq!(counts().await, Counts { pending: 2, running: 1, completed: 1, error: 1, cancelled: 0 });
}

pub(crate) async fn jobs_are_paged_and_filtered_without_loss_or_repeat(world: &dyn World) {
    let log = world.log();
    let mut accepted = Vec::new();
    for n in 0..7 {
        accepted.push(accept(&log, &format!("s{n}"), "a secret message").await.run_id);
    }
    let (mut seen, mut cursor): (Vec<Uuid>, Option<Cursor>) = (Vec::new(), None);
    loop {
        let page = log.jobs(None, cursor, 3).await.expect("the log answers");
        assert!(page.items.len() <= 3 && !format!("{page:?}").contains("secret"));
        seen.extend(page.items.iter().map(|job| job.run_id));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
        accept(&log, "later", "y").await;
    }
    // Newest first by their ids, in which runs of one millisecond have no order; one that came meanwhile may be of the same.
    accepted.sort_by(|one, other| other.cmp(one));
    seen.retain(|run| accepted.contains(run));
    assert_eq!(seen, accepted);
    let turn = claim(&log, "a").await;
    let running = log.jobs(Some(Status::Running), None, 10).await.expect("the log answers").items;
    assert_eq!(running.iter().map(|job| job.run_id).collect::<Vec<_>>(), [turn.claim.run_id]);
    let held = running[0].held.as_ref().expect("somebody holds it");
    assert_eq!(held.worker, "worker-at-a");
}

pub(crate) async fn a_job_tells_all_but_what_was_said(world: &dyn World) {
    let log = world.log();
    let mut sent = of_user("ann", submission("s", "a secret message"));
    let file = InputFile { name: "a.txt".into(), media_type: "text/plain".into(), size: 6, sha256: "ab".repeat(32) };
    sent.submitted.input.files = vec![file.clone()];
    let run = log.submit(sent).await.expect("accepted").run_id;
    let mut turn = claim(&log, "a").await;
    turn.begin().await;
    let job = log.job(run).await.expect("the log answers").expect("there");
    assert_eq!((job.status, job.attempt, job.host.as_deref(), job.user_id.as_deref()), (Status::Running, 1, Some("a"), Some("ann")));
    assert_eq!((job.files.as_deref(), job.kind.as_str(), job.requeued_from), (Some(&[file][..]), "namespace", None));
    turn.finish(vec![failed("exit 3")], None).await.expect("finished");
    let job = log.job(run).await.expect("the log answers").expect("there");
    assert_eq!((job.held.clone(), job.host.clone(), job.failure.clone()), (None, None, Some(("exit 3".into(), "harness".into()))));
    assert!(job.ended_at.is_some() && !format!("{job:?}").contains("secret"));
    assert!(log.job(Uuid::new_v4()).await.expect("the log answers").is_none());
}

pub(crate) async fn a_requeued_run_is_a_new_one_at_the_sessions_tail(world: &dyn World) {
    let log = world.log();
    let attachment = Attachment { name: "a".into(), media_type: "image/png".into(), sha256: "ab".repeat(32), body: vec![0, 1, 2] };
    let mut sent = with_key("k", "f", Submission { attachments: vec![attachment.clone()], ..of_user("ann", submission("s", "x")) });
    sent.submitted.agent.name = "As it was".into();
    let old = log.submit(sent.clone()).await.expect("accepted").run_id;
    assert!(matches!(log.requeue(old, false).await, Err(QueueError::NotEnded)));
    let mut turn = claim(&log, "a").await;
    assert!(matches!(log.requeue(old, false).await, Err(QueueError::NotEnded)));
    turn.begin().await;
    turn.finish(vec![failed("exit 3")], None).await.expect("finished");
    let before = events(&log, old).await;
    let waiting = log.submit(of_user("ann", submission("s", "before it"))).await.expect("accepted").run_id;

    let again = log.requeue(old, false).await.expect("requeued");
    assert!(again.run_id > waiting && again.session_id == "s" && again.agent_id == "echo");
    assert_eq!(again.session, turn.claim.session);
    assert_eq!(events(&log, old).await, before, "what has ended stays ended");
    sent.submitted.requeued_from = Some(old);
    assert_eq!(events(&log, again.run_id).await.remove(0).event, Event::Submitted(Box::new(sent.submitted.clone())));
    assert_eq!(log.attachments(again.run_id).await.expect("the log answers"), [attachment]);
    assert_eq!(log.job(again.run_id).await.expect("the log answers").expect("there").requeued_from, Some(old));
    // The key still leads to the run that it started.
    sent.submitted.requeued_from = None;
    assert_eq!(log.submit(sent).await.expect("a known key").run_id, old);
    // In its turn, and once more.
    assert_eq!(claim(&log, "a").await.claim.run_id, waiting);
    log.cancel("echo", waiting, None).await.expect("cancelled");
    let mut turn = claim(&log, "a").await;
    assert_eq!(turn.claim.run_id, again.run_id);
    turn.begin().await;
    turn.complete("c").await.expect("finished");
    let third = log.requeue(again.run_id, false).await.expect("requeued");
    assert_eq!(log.job(third.run_id).await.expect("the log answers").expect("there").requeued_from, Some(again.run_id));
}

pub(crate) async fn an_unknown_or_erased_run_is_not_requeued(world: &dyn World) {
    let log = world.log();
    assert!(matches!(log.requeue(Uuid::new_v4(), false).await, Err(QueueError::Unknown)));
    let run = accept(&log, "s", "x").await.run_id;
    log.cancel("echo", run, None).await.expect("cancelled");
    log.erase("s", None).await.expect("erased");
    assert!(matches!(log.requeue(run, false).await, Err(QueueError::Unknown)));
}

pub(crate) async fn a_run_is_not_requeued_while_workers_of_two_hosts_need_checkpoints_that_both_read(world: &dyn World) {
    let log = world.log();
    let ended = accept(&log, "s", "x").await.run_id;
    log.cancel("echo", ended, None).await.expect("cancelled");
    let waits = accept(&log, "t", "x").await.run_id;
    log.heartbeat(&[], &[seen("a"), seen("b")], LONG).await.expect("the log answers");
    let before = log.stats().await.expect("the log answers").counts;
    // After what is not there, and before how far it is.
    for run in [ended, waits] {
        let refused = log.requeue(run, true).await;
        assert!(matches!(refused, Err(QueueError::ManyHosts)), "{refused:?}");
    }
    assert!(matches!(log.requeue(Uuid::new_v4(), true).await, Err(QueueError::Unknown)));
    assert_eq!(log.stats().await.expect("the log answers").counts, before);
    log.requeue(ended, false).await.expect("somebody said where checkpoints are");
    world.age(40_000).await;
    log.heartbeat(&[], &[seen("a")], LONG).await.expect("the log answers");
    log.requeue(ended, true).await.expect("the other one is gone");
}

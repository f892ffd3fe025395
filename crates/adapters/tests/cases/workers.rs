//! Many workers at once, some of which lose their leases in the middle.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use runs::{Event, Phase, Recorded, Run, Status};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::kit::*;
use crate::world::{Log, World};

/// Drives what it can claim until `left` runs out. One claim in four is let go in the middle with a lease that is over: its run goes on with another worker.
async fn work(log: Arc<dyn Log>, number: usize, left: Arc<AtomicUsize>) {
    let mut claims = number;
    while left.load(Ordering::SeqCst) > 0 {
        claims += 1;
        let dies = claims.is_multiple_of(4);
        let Some(claim) = try_claim(&log, "a", if dies { 0 } else { LONG }).await else {
            tokio::task::yield_now().await;
            continue;
        };
        let mut turn = Turn::of(&log, claim).await;
        // Every refusal means that another worker has it now.
        let went = drive(&mut turn, dies).await;
        match went {
            Ok(true) => drop(left.fetch_sub(1, Ordering::SeqCst)),
            Ok(false) => {}
            Err(refused) => assert!(is_taken::<()>(Err(refused))),
        }
    }
}

async fn drive(turn: &mut Turn, dies: bool) -> Result<bool, adapters::AppendError> {
    if !turn.run.is_held_by(turn.claim.claim) {
        return Ok(false);
    }
    if matches!(turn.run.phase, Phase::Waiting { .. }) {
        turn.request().await?;
    }
    if matches!(turn.run.phase, Phase::Requested(_)) {
        turn.start().await?;
    }
    turn.print(&["a\n", "b\n"]).await?;
    if dies {
        return Ok(false);
    }
    turn.complete("c").await.map(|()| true)
}

async fn run_workers(log: &Arc<dyn Log>, runs: usize) {
    let left = Arc::new(AtomicUsize::new(runs));
    let mut workers = JoinSet::new();
    for number in 0..8 {
        workers.spawn(work(log.clone(), number, left.clone()));
    }
    let limit = std::time::Duration::from_secs(60);
    tokio::time::timeout(limit, workers.join_all()).await.expect("every run ends");
    assert_eq!(left.load(Ordering::SeqCst), 0, "no run ended twice");
}

/// The epochs of the run's claims, after its log was checked.
async fn epochs(log: &Arc<dyn Log>, run: Uuid) -> (Vec<u64>, Vec<Recorded>) {
    let recorded = events(log, run).await;
    let folded = Run::fold(&recorded).expect("a legal log").expect("there");
    assert_eq!(folded.phase, Phase::Completed);
    assert_eq!(recorded.iter().filter(|recorded| recorded.event.is_terminal()).count(), 1);
    assert_eq!((status(log, run).await, folded.attempt), (Status::Completed, 1), "a re-attached sandbox is no new attempt");
    let claims = recorded.iter().filter_map(|recorded| match &recorded.event {
        Event::Claimed(claimed) => Some(claimed.epoch),
        _ => None,
    });
    (claims.collect(), recorded)
}

pub(crate) async fn one_turn_at_a_time_over_eight_workers(world: &dyn World) {
    let log = world.log();
    let mut accepted = Vec::new();
    for n in 0..30 {
        accepted.push(accept(&log, "s", &n.to_string()).await.run_id);
    }
    run_workers(&log, accepted.len()).await;
    // Epochs of one session rise from run to run: nobody claimed a run before the one before it had ended.
    let (mut epoch, mut ended_at) = (0, 0);
    for run in accepted {
        let (claims, recorded) = epochs(&log, run).await;
        for claim in claims {
            assert!(claim > epoch, "epoch {claim} after {epoch}");
            epoch = claim;
        }
        assert!(recorded[1].at >= ended_at, "claimed before the run before it had ended");
        ended_at = recorded.last().expect("an event").at;
    }
}

pub(crate) async fn many_sessions_end_over_workers_that_die(world: &dyn World) {
    let log = world.log();
    let left = Arc::new(AtomicUsize::new(40));
    let mut tasks = JoinSet::new();
    for number in 0..4 {
        tasks.spawn(work(log.clone(), number, left.clone()));
    }
    // Submitted while the workers are at it, to sessions that are in their hands.
    for n in 0..4_usize {
        let log = log.clone();
        tasks.spawn(async move {
            for message in 0..10 {
                accept(&log, &format!("session-{}", (n + message) % 5), "x").await;
            }
        });
    }
    let limit = std::time::Duration::from_secs(60);
    tokio::time::timeout(limit, tasks.join_all()).await.expect("every run ends");
    let all = log.runs(adapters::RunsQuery { limit: 100, ..Default::default() }, None).await.expect("the log answers").items;
    assert_eq!(all.len(), 40);
    for row in all {
        epochs(&log, row.run_id).await;
    }
}

/// Submissions, cancels and erasures beside workers that die, until the turns are done.
pub(crate) async fn whatever_happens_at_once_the_logs_stay_legal(world: &dyn World) {
    let log = world.log();
    log.heartbeat(&[], &[seen("a")], LONG).await.expect("the log answers");
    let (submitted, known) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
    let mut tasks = JoinSet::new();
    for n in 0..2 {
        tasks.spawn(submit_many(log.clone(), n, known.clone(), submitted.clone()));
        tasks.spawn(cancel_some(log.clone(), known.clone(), submitted.clone()));
    }
    tasks.spawn(erase_some(log.clone(), submitted.clone()));
    for number in 0..4 {
        tasks.spawn(work_until_all_ended(log.clone(), number, submitted.clone()));
    }
    let limit = std::time::Duration::from_secs(60);
    tokio::time::timeout(limit, tasks.join_all()).await.expect("every run ends");
    let known = known.lock().expect("a list").clone();
    assert_eq!(known.len(), 2 * SUBMISSIONS);
    for run in known {
        let recorded = events(&log, run).await;
        let row = log.run("echo", run, None).await.expect("the log answers");
        assert_eq!(row.is_some(), !recorded.is_empty(), "an erased run has neither row nor events");
        if let Some(row) = row {
            assert!(Run::fold(&recorded).expect("a legal log").expect("there").phase.has_ended());
            assert_projected(&row, &recorded);
        }
    }
}

const SUBMISSIONS: usize = 30;
type Known = Arc<Mutex<Vec<Uuid>>>;

async fn submit_many(log: Arc<dyn Log>, n: usize, known: Known, submitted: Arc<AtomicUsize>) {
    for message in 0..SUBMISSIONS {
        let sent = with_key(&format!("{n} {message}"), "f", submission(&format!("session-{}", message % 3), "x"));
        let accepted = log.submit(sent).await.expect("accepted");
        known.lock().expect("a list").push(accepted.run_id);
    }
    submitted.fetch_add(1, Ordering::SeqCst);
}

async fn cancel_some(log: Arc<dyn Log>, known: Known, submitted: Arc<AtomicUsize>) {
    let mut at = 0;
    while submitted.load(Ordering::SeqCst) < 2 {
        at += 3;
        let run = known.lock().expect("a list").get(at).copied();
        match run {
            Some(run) => drop(log.cancel("echo", run, None).await.expect("the log answers")),
            None => (at, ()) = (at - 3, tokio::task::yield_now().await),
        }
    }
}

async fn erase_some(log: Arc<dyn Log>, submitted: Arc<AtomicUsize>) {
    while submitted.load(Ordering::SeqCst) < 2 {
        for session in 0..3 {
            log.erase(&format!("session-{session}"), None).await.expect("the log answers");
        }
    }
}

async fn work_until_all_ended(log: Arc<dyn Log>, number: usize, submitted: Arc<AtomicUsize>) {
    let mut claims = number;
    loop {
        claims += 1;
        let all_are_in = submitted.load(Ordering::SeqCst) == 2;
        let Some(claim) = try_claim(&log, "a", if claims.is_multiple_of(3) { 0 } else { LONG }).await else {
            let unended = [Status::Pending, Status::Running];
            let query = |status| adapters::RunsQuery { status: Some(status), limit: 1, ..Default::default() };
            let left = [log.runs(query(unended[0]), None).await, log.runs(query(unended[1]), None).await];
            if all_are_in && left.into_iter().all(|page| page.expect("the log answers").items.is_empty()) {
                return;
            }
            continue;
        };
        // It may have been cancelled or taken, ended and erased, since.
        let recorded = events(&log, claim.run_id).await;
        let Some(run) = Run::fold(&recorded).expect("a legal log") else { continue };
        let mut turn = Turn { log: log.clone(), claim, run };
        let ended = turn.run.phase.has_ended() || !turn.run.is_held_by(turn.claim.claim);
        let went = if ended { Ok(false) } else { drive_or_cancel(&mut turn, claims.is_multiple_of(3)).await };
        assert!(matches!(went, Ok(_) | Err(adapters::AppendError::Taken(_) | adapters::AppendError::Gone)), "{went:?}");
        // Who was told to let go by a cancel still holds it: the next look decides.
        if went.is_err() && !ended {
            finish_what_is_held(&mut turn).await;
        }
    }
}

async fn drive_or_cancel(turn: &mut Turn, dies: bool) -> Result<bool, adapters::AppendError> {
    if turn.run.cancel_requested {
        return turn.finish(vec![runs::decide::cancelled()], None).await.map(|()| true);
    }
    drive(turn, dies).await
}

async fn finish_what_is_held(turn: &mut Turn) {
    loop {
        let recorded = events(&turn.log, turn.claim.run_id).await;
        let Some(run) = Run::fold(&recorded).expect("a legal log") else { return };
        turn.run = run;
        if turn.run.phase.has_ended() || !turn.run.is_held_by(turn.claim.claim) || drive_or_cancel(turn, false).await.is_ok() {
            return;
        }
    }
}

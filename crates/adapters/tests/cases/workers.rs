//! Many workers at once, some of which lose their leases in the middle.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

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

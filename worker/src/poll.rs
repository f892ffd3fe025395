//! A worker as a poller: it claims while it has room, and drives what it claimed.

use std::sync::Arc;
use std::time::Duration;

use adapters::Claim;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tracing::warn;

use crate::sandbox::Place;
use crate::sweep::sweep;
use crate::time::Time;
use crate::worker::Worker;

/// How long turns may take to hand over.
const HAND_OVER: Duration = Duration::from_secs(5);

/// What a worker's stop does to its sandboxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// They go on, for the next worker.
    LeaveSandboxes,
    /// They end too; their runs wait for a worker and start another attempt.
    EndSandboxes,
}

impl Worker {
    /// Works until `shutdown`, then hands over what it holds.
    pub async fn run(self: Arc<Self>, shutdown: impl Future<Output = Stop> + Send) {
        // Its hosts are known before anything stands on them.
        self.beat().await;
        let mut background = JoinSet::new();
        let worker = Arc::clone(&self);
        background.spawn(async move { match worker.beats().await {} });
        let worker = Arc::clone(&self);
        background.spawn(async move { worker.listens().await });
        background.spawn(Arc::clone(&self).sweeps());
        let mut turns = JoinSet::new();
        let room = Arc::new(Semaphore::new(self.parts.options.turns));
        let stop = tokio::select! {
            stop = shutdown => stop,
            () = Arc::clone(&self).claims(&mut turns, room) => Stop::LeaveSandboxes,
        };
        self.leases.stop();
        let mut left = Vec::new();
        let handed_over = async {
            while let Some(turn) = turns.join_next().await {
                left.extend(turn.ok().flatten());
            }
        };
        let _ = tokio::time::timeout(HAND_OVER, handed_over).await;
        // Turns that wait for a log that is away: their leases run out.
        turns.shutdown().await;
        background.shutdown().await;
        if stop == Stop::EndSandboxes {
            left.extend(self.leases.claims());
            self.end(left).await;
            for sandboxes in &self.parts.sandboxes {
                if let Err(error) = sandboxes.close().await {
                    warn!(error = &error as &dyn std::error::Error, "not all ended that sandboxes needed");
                }
            }
        }
    }

    async fn claims(self: Arc<Self>, turns: &mut JoinSet<Option<Claim>>, room: Arc<Semaphore>) {
        loop {
            let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
            // Registered before the look, so that a wake-up in between is not lost.
            let woken = self.wake.notified();
            match self.parts.driver.claim(&self.request(None)).await {
                Ok(Some(claim)) => {
                    let worker = Arc::clone(&self);
                    turns.spawn(async move {
                        let left = worker.session(claim, Time::UNKNOWN).await;
                        drop(permit);
                        left
                    });
                    while turns.try_join_next().is_some() {}
                    continue;
                }
                Ok(None) => {}
                Err(error) => warn!(error = &error as &dyn std::error::Error, "cannot claim"),
            }
            drop(permit);
            let _ = tokio::time::timeout(self.parts.options.poll, woken).await;
        }
    }

    async fn sweeps(self: Arc<Self>) {
        let mut tick = tokio::time::interval(self.parts.options.sweep);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            sweep(&self.parts, &self.leases).await;
        }
    }

    async fn end(&self, left: Vec<Claim>) {
        for claim in left {
            for sandboxes in self.parts.sandboxes.iter().filter(|one| one.host() == claim.host) {
                let standing = sandboxes.list().await.unwrap_or_default();
                for place in standing.into_iter().filter(|place| is_of(place, &claim)) {
                    if let Err(error) = sandboxes.retire(&place).await {
                        warn!(run.id = %claim.run_id, error = &error as &dyn std::error::Error, "sandbox not ended");
                    }
                }
            }
        }
    }
}

fn is_of(place: &Place, claim: &Claim) -> bool {
    place.session == claim.session && place.name.starts_with(&claim.run_id.to_string())
}

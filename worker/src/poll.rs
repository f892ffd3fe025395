//! A worker as a poller: it claims while it has room, and drives what it claimed.

use std::sync::Arc;
use std::time::Duration;

use adapters::{Claim, ClaimRequest, HostSeen, Signal};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tracing::{info, warn};
use uuid::Uuid;

use crate::drive::{Outcome, drive};
use crate::lease::Leases;
use crate::sandbox::{Place, Sandboxes};
use crate::sweep::sweep;
use crate::{Options, Parts};

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

pub struct Worker {
    parts: Parts,
    leases: Leases,
    wake: Notify,
}

impl Worker {
    pub fn new(parts: Parts) -> Arc<Self> {
        Arc::new(Self { parts, leases: Leases::default(), wake: Notify::new() })
    }

    /// Works until `shutdown`, then hands over what it holds.
    pub async fn run(self: Arc<Self>, shutdown: impl Future<Output = Stop> + Send) {
        // Its hosts are known before anything stands on them.
        self.beat().await;
        let mut background = JoinSet::new();
        background.spawn(Arc::clone(&self).beats());
        background.spawn(Arc::clone(&self).listens());
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
                        let left = worker.session(claim).await;
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

    /// Drives a claim, and then the session's next run by a claim of its own. Answers the claim whose sandbox goes on.
    async fn session(&self, mut claim: Claim) -> Option<Claim> {
        loop {
            info!(run.id = %claim.run_id, claim.epoch = claim.epoch, "claimed");
            let word = self.leases.take(&claim);
            let outcome = drive(&self.parts, &claim, word).await;
            self.leases.drop(claim.claim);
            if outcome == Outcome::Ended {
                // Asked after the end has committed: inside that call a submission that commits beside it would be missed.
                match self.parts.driver.claim(&self.request(Some(claim.session))).await {
                    Ok(Some(next)) => {
                        claim = next;
                        continue;
                    }
                    Ok(None) => {}
                    Err(error) => warn!(error = &error as &dyn std::error::Error, "cannot claim the session's next run"),
                }
            }
            return (outcome == Outcome::HandedOver).then_some(claim);
        }
    }

    fn request(&self, session: Option<Uuid>) -> ClaimRequest {
        let Options { name, lease, dead_man, .. } = &self.parts.options;
        ClaimRequest {
            worker: name.clone(),
            hosts: self.parts.sandboxes.iter().map(|one| (one.kind().to_owned(), one.host().to_owned())).collect(),
            lease_ms: millis(*lease),
            dead_man_ms: millis(*dead_man),
            session,
        }
    }

    async fn beats(self: Arc<Self>) {
        let mut tick = tokio::time::interval(self.parts.options.lease / 3);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            self.beat().await;
        }
    }

    async fn beat(&self) {
        let Options { lease, label, .. } = &self.parts.options;
        let host = |one: &Arc<dyn Sandboxes>| HostSeen { host: one.host().into(), kind: one.kind().into(), label: label.clone() };
        let hosts: Vec<HostSeen> = self.parts.sandboxes.iter().map(host).collect();
        self.leases.beat(self.parts.driver.as_ref(), &hosts, *lease).await;
    }

    async fn listens(self: Arc<Self>) {
        let mut signals = self.parts.signals.subscribe();
        loop {
            match signals.recv().await {
                Ok(Signal::Work) => self.wake.notify_one(),
                Ok(Signal::Cancel(run_id)) => self.leases.cancel(run_id),
                Ok(Signal::Advanced(_)) => {}
                Err(RecvError::Lagged(_)) => {
                    self.wake.notify_one();
                    self.leases.look();
                }
                Err(RecvError::Closed) => return,
            }
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

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

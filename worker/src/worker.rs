//! What a worker does with a session, whoever sends it there: a poller finds it, a function is rung for it.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use adapters::{Claim, ClaimRequest, HostSeen, LogError, Signal};
use tokio::sync::Notify;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::MissedTickBehavior;
use tracing::{info, warn};
use uuid::Uuid;

use crate::drive::{Outcome, drive};
use crate::lease::Leases;
use crate::time::{Time, need};
use crate::{Options, Parts};

pub struct Worker {
    pub(crate) parts: Parts,
    pub(crate) leases: Leases,
    pub(crate) wake: Notify,
}

/// What came of asking for a session's turn.
pub(crate) enum Chance {
    Claimed(Claim),
    /// There is nothing to do, or nothing that this worker can do.
    Nothing,
    /// The time left would not hold the turn. It was not claimed.
    TooShort,
}

impl Worker {
    pub fn new(parts: Parts) -> Arc<Self> {
        parts.metrics.hears(parts.signals.carried());
        Arc::new(Self { parts, leases: Leases::default(), wake: Notify::new() })
    }

    /// Drives a claim, and then the session's next run by a claim of its own. Answers the claim whose sandbox goes on.
    pub(crate) async fn session(&self, mut claim: Claim, time: Time) -> Option<Claim> {
        loop {
            info!(run.id = %claim.run_id, claim.epoch = claim.epoch, "claimed");
            let word = self.leases.take(&claim);
            self.parts.metrics.driven(self.leases.runs().len());
            let wishes = self.parts.signals.follow_cancel(claim.run_id);
            let outcome = drive(&self.parts, &claim, word).await;
            drop(wishes);
            self.leases.drop(claim.claim);
            self.parts.metrics.driven(self.leases.runs().len());
            if outcome == Outcome::Ended {
                // Asked after the end has committed: inside that call a submission that commits beside it would be missed.
                match self.chance(claim.session, time).await {
                    Ok(Chance::Claimed(next)) => {
                        claim = next;
                        continue;
                    }
                    Ok(Chance::Nothing) => {}
                    // Time went by with the turn before it: who starts afresh has more.
                    Ok(Chance::TooShort) => self.parts.ring.ring(claim.session).await,
                    Err(error) => warn!(error = &error as &dyn std::error::Error, "cannot claim the session's next run"),
                }
            }
            return (outcome == Outcome::HandedOver).then_some(claim);
        }
    }

    /// Claims the session's turn. Who has a deadline looks first: a turn that it cannot hold is left unclaimed, so that refusing costs the log nothing.
    pub(crate) async fn chance(&self, session: Uuid, time: Time) -> Result<Chance, LogError> {
        let request = self.request(Some(session));
        if let Some(left) = time.left() {
            let Some(ready) = self.parts.driver.ready(&request, None, 1).await?.pop() else { return Ok(Chance::Nothing) };
            let need = need(&ready);
            if need > left {
                warn!(run.id = %ready.run_id, ?need, ?left, "not started: the turn's time limit does not fit into the time that is left here");
                return Ok(Chance::TooShort);
            }
        }
        Ok(self.parts.driver.claim(&request).await?.map_or(Chance::Nothing, Chance::Claimed))
    }

    pub(crate) fn request(&self, session: Option<Uuid>) -> ClaimRequest {
        let Options { name, lease, dead_man, .. } = &self.parts.options;
        ClaimRequest {
            worker: name.clone(),
            hosts: self.parts.sandboxes.iter().map(|one| (one.kind().to_owned(), one.host().to_owned())).collect(),
            lease_ms: millis(*lease),
            dead_man_ms: millis(*dead_man),
            session,
        }
    }

    /// One heartbeat for all that is held, at once and then every third of a lease.
    pub(crate) async fn beats(&self) -> Infallible {
        let mut tick = tokio::time::interval(self.parts.options.lease / 3);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            self.beat().await;
        }
    }

    /// Hears of work and of wishes to cancel, for as long as anybody could tell.
    pub(crate) async fn listens(&self) {
        let _work = self.parts.signals.follow_work();
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

    pub(crate) async fn beat(&self) {
        let Options { lease, label, .. } = &self.parts.options;
        let seen = |one: &Arc<dyn crate::sandbox::Sandboxes>| HostSeen { host: one.host().into(), kind: one.kind().into(), label: label.clone() };
        let hosts: Vec<HostSeen> = self.parts.sandboxes.iter().map(seen).collect();
        self.leases.beat(self.parts.driver.as_ref(), &hosts, *lease).await;
        self.parts.signals.renew(&self.leases.runs());
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

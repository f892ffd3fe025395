//! The leases of a worker: one heartbeat for all, every third of a lease, and what it brings back.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use adapters::{Claim, Driver, Holding, HostSeen};
use tokio::sync::watch;
use tracing::warn;
use uuid::Uuid;

/// What a turn hears of its lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Word {
    /// Another has it, or may have it.
    pub(crate) lost: bool,
    /// How often there was reason to look into the log for a wish to cancel.
    pub(crate) hints: u64,
    /// The worker stops.
    pub(crate) stop: bool,
    /// Heartbeats that the database answered: each is a visit that the runner may count.
    pub(crate) beats: u64,
}

struct Held {
    claim: Claim,
    word: watch::Sender<Word>,
}

/// All that a worker holds.
#[derive(Default)]
pub(crate) struct Leases {
    held: Mutex<HashMap<Uuid, Held>>,
    stopping: std::sync::atomic::AtomicBool,
}

impl Leases {
    fn with<T>(&self, act: impl FnOnce(&mut HashMap<Uuid, Held>) -> T) -> T {
        act(&mut self.held.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn take(&self, claim: &Claim) -> watch::Receiver<Word> {
        let stop = self.stopping.load(std::sync::atomic::Ordering::SeqCst);
        let (word, heard) = watch::channel(Word { stop, ..Word::default() });
        self.with(|held| held.insert(claim.claim, Held { claim: claim.clone(), word }));
        heard
    }

    pub(crate) fn drop(&self, claim: Uuid) {
        self.with(|held| held.remove(&claim));
    }

    pub(crate) fn runs(&self) -> Vec<Uuid> {
        self.with(|held| held.values().map(|one| one.claim.run_id).collect())
    }

    /// All that is held still.
    pub(crate) fn claims(&self) -> Vec<Claim> {
        self.with(|held| held.values().map(|one| one.claim.clone()).collect())
    }

    /// A signal says that there is a wish to cancel this run.
    pub(crate) fn cancel(&self, run_id: Uuid) {
        self.with(|held| {
            held.values().filter(|one| one.claim.run_id == run_id).for_each(|one| one.word.send_modify(|word| word.hints += 1));
        });
    }

    /// Signals were missed: every turn looks for itself.
    pub(crate) fn look(&self) {
        self.with(|held| held.values().for_each(|one| one.word.send_modify(|word| word.hints += 1)));
    }

    pub(crate) fn stop(&self) {
        self.stopping.store(true, std::sync::atomic::Ordering::SeqCst);
        self.with(|held| held.values().for_each(|one| one.word.send_modify(|word| word.stop = true)));
    }

    /// Renews all, once. What the log does not answer for is lost; while the log cannot be asked, nothing is known and nothing changes.
    pub(crate) async fn beat(&self, driver: &dyn Driver, hosts: &[HostSeen], lease: Duration) {
        let asked: Vec<Holding> = self.with(|held| held.values().map(|one| Holding { session: one.claim.session, claim: one.claim.claim }).collect());
        let notices = match driver.heartbeat(&asked, hosts, u64::try_from(lease.as_millis()).unwrap_or(u64::MAX)).await {
            Ok(notices) => notices,
            Err(error) => return warn!(error = &error as &dyn std::error::Error, "heartbeat failed"),
        };
        self.with(|held| {
            for one in asked {
                let notice = notices.iter().find(|notice| notice.claim == one.claim);
                if let Some(held) = held.get(&one.claim) {
                    held.word.send_modify(|word| match notice {
                        Some(notice) => {
                            word.hints += u64::from(notice.cancel_requested);
                            word.beats += 1;
                        }
                        None => word.lost = true,
                    });
                }
            }
        });
    }
}

//! Wake-ups between those who write the log and those who wait for it. A signal may be lost, doubled or late.
//!
//! [`Signals`] reaches whoever listens already; [`Ring`] starts workers that run only while there is work.

use async_trait::async_trait;
use tokio::sync::broadcast;
use uuid::Uuid;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// The run has new events.
    Advanced(Uuid),
    /// Somebody wishes the run to stop.
    Cancel(Uuid),
    /// Some session has work.
    Work,
}

pub trait Signals: Send + Sync {
    fn send(&self, signal: Signal);
    /// From now on. A receiver that lags has missed signals, which it must take as "look at everything".
    fn subscribe(&self) -> broadcast::Receiver<Signal>;
}

/// The bell of workers that are functions. What goes wrong with it costs the time until the next sweep, so it is logged and never answered.
#[async_trait]
pub trait Ring: Send + Sync {
    /// Says that the session has work, after that has committed.
    async fn ring(&self, session: Uuid);
}

/// Where every worker is a process that looks for itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRing;

#[async_trait]
impl Ring for NoRing {
    async fn ring(&self, _: Uuid) {}
}

/// Between api and worker in one process.
#[derive(Debug)]
pub struct LocalSignals(broadcast::Sender<Signal>);

impl Default for LocalSignals {
    fn default() -> Self {
        Self(broadcast::channel(1024).0)
    }
}

impl Signals for LocalSignals {
    fn send(&self, signal: Signal) {
        // Nobody listening is fine: who comes later looks at the log.
        let _ = self.0.send(signal);
    }

    fn subscribe(&self) -> broadcast::Receiver<Signal> {
        self.0.subscribe()
    }
}

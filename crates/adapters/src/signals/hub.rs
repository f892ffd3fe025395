//! Between all of one process, and to a carrier where there is one.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use uuid::Uuid;

use super::outbox::{Out, Outbox, outbox, put};
use super::topics::{Following, Topic, Topics};
use super::{Carried, Signal, Signals};

/// Signals that a receiver may lag behind before it has to look at everything.
const HEARD: usize = 1024;

/// Ends its carrier when it is dropped.
pub struct Hub {
    heard: broadcast::Sender<Signal>,
    topics: Arc<Topics>,
    outbox: Option<mpsc::Sender<Out>>,
    carried: watch::Receiver<Carried>,
    _carrier: JoinSet<()>,
}

/// What a carrier has to do with.
pub(crate) struct Ends {
    /// Where it leaves what came.
    pub(crate) heard: broadcast::Sender<Signal>,
    pub(crate) topics: Arc<Topics>,
    pub(crate) outbox: Outbox,
    pub(crate) switch: Switch,
}

/// Where a carrier says whether it is up. Operators are told once that it is not, and once that it is again.
pub(crate) struct Switch {
    carried: watch::Sender<Carried>,
    told: AtomicBool,
}

impl Switch {
    pub(crate) fn up(&self) {
        self.set(true, None);
        if self.told.swap(false, Ordering::SeqCst) {
            tracing::info!(carrier = self.carrier(), "signals between processes come again");
        }
    }

    /// `why` is shown to whoever asks, `error` to operators alone: it may have what a server was asked.
    pub(crate) fn down(&self, why: &str, error: &(dyn Error + 'static)) {
        if !self.told.swap(true, Ordering::SeqCst) {
            tracing::warn!(error, carrier = self.carrier(), why, "signals between processes are away: they are late until it is back");
        }
        self.set(false, Some(why.to_owned()));
    }

    /// Nothing will be carried after all.
    pub(crate) fn give_up(&self, why: &str) {
        tracing::warn!(carrier = self.carrier(), why, "signals between processes are looked for by the clock from now on");
        self.carried.send_replace(Carried { carrier: "poll", up: false, why: Some(why.to_owned()) });
    }

    fn carrier(&self) -> &'static str {
        self.carried.borrow().carrier
    }

    fn set(&self, up: bool, why: Option<String>) {
        self.carried.send_if_modified(|carried| {
            let changed = carried.up != up || carried.why != why;
            (carried.up, carried.why) = (up, why);
            changed
        });
    }
}

impl Hub {
    /// Nothing leaves the process: who is elsewhere looks by the clock.
    pub fn poll() -> Hub {
        let carried =
            watch::Sender::new(Carried { carrier: "poll", up: false, why: Some("nothing else is configured: each process looks for itself".into()) })
                .subscribe();
        Hub { heard: broadcast::channel(HEARD).0, topics: Arc::default(), outbox: None, carried, _carrier: JoinSet::new() }
    }

    pub(crate) fn with(carrier: &'static str, start: impl FnOnce(Ends, &mut JoinSet<()>)) -> Hub {
        let (sender, outbox) = outbox();
        let (switch, carried) = watch::channel(Carried { carrier, up: false, why: Some("not connected yet".into()) });
        let (heard, topics) = (broadcast::channel(HEARD).0, Arc::<Topics>::default());
        let mut tasks = JoinSet::new();
        start(
            Ends { heard: heard.clone(), topics: Arc::clone(&topics), outbox, switch: Switch { carried: switch, told: AtomicBool::new(false) } },
            &mut tasks,
        );
        Hub { heard, topics, outbox: Some(sender), carried, _carrier: tasks }
    }
}

#[async_trait]
impl Signals for Hub {
    fn send(&self, signal: Signal) {
        if let Some(outbox) = &self.outbox {
            put(outbox, Out::Signal(signal.carried()));
        }
        // Nobody listening is fine: who comes later looks at the log.
        let _ = self.heard.send(signal);
    }

    fn subscribe(&self) -> broadcast::Receiver<Signal> {
        self.heard.subscribe()
    }

    fn follow_run(&self, run_id: Uuid, next: u32) -> Following {
        self.topics.follow(Topic::Run(run_id), next)
    }

    fn follow_cancel(&self, run_id: Uuid) -> Following {
        self.topics.follow(Topic::Cancel(run_id), 0)
    }

    fn follow_work(&self) -> Following {
        self.topics.follow(Topic::Work, 0)
    }

    fn renew(&self, runs: &[Uuid]) {
        if let Some(outbox) = self.outbox.as_ref().filter(|_| !runs.is_empty()) {
            put(outbox, Out::Renew(runs.to_vec()));
        }
    }

    fn carried(&self) -> watch::Receiver<Carried> {
        self.carried.clone()
    }

    async fn settle(&self, limit: Duration) {
        let Some(outbox) = &self.outbox else { return };
        let (done, settled) = oneshot::channel();
        let settling = async {
            if outbox.send(Out::Settle(done)).await.is_ok() {
                let _ = settled.await;
            }
        };
        let _ = tokio::time::timeout(limit, settling).await;
    }
}

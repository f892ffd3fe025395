//! Signals as a test wants them.

use std::time::Duration;

use adapters::signals::Hub;
use adapters::{Carried, Following, Signal, Signals};
use async_trait::async_trait;
use tokio::sync::{broadcast, watch};
use uuid::Uuid;

/// Says that hints of other processes come, or not; and may lose all that is sent.
pub(crate) struct Wire {
    hub: Hub,
    carried: watch::Sender<Carried>,
    loses: bool,
}

impl Wire {
    pub(crate) fn new(up: bool, loses: bool) -> Self {
        Self { hub: Hub::poll(), carried: watch::Sender::new(Carried { carrier: "redis", up, why: None }), loses }
    }

    pub(crate) fn set(&self, up: bool) {
        self.carried.send_modify(|carried| carried.up = up);
    }
}

#[async_trait]
impl Signals for Wire {
    fn send(&self, signal: Signal) {
        if !self.loses {
            self.hub.send(signal);
        }
    }

    fn subscribe(&self) -> broadcast::Receiver<Signal> {
        self.hub.subscribe()
    }

    fn follow_run(&self, run_id: Uuid, next: u32) -> Following {
        self.hub.follow_run(run_id, next)
    }

    fn follow_cancel(&self, run_id: Uuid) -> Following {
        self.hub.follow_cancel(run_id)
    }

    fn follow_work(&self) -> Following {
        self.hub.follow_work()
    }

    fn renew(&self, _: &[Uuid]) {}

    fn carried(&self) -> watch::Receiver<Carried> {
        self.carried.subscribe()
    }

    async fn settle(&self, _: Duration) {}
}

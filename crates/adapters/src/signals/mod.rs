//! Wake-ups between those who write the log and those who wait for it. A signal may be lost, doubled, late or wrong.
//!
//! [`Signals`] reaches whoever listens already; [`Ring`] starts workers that run only while there is work. Behind [`Signals`] is a [`Hub`]: it wakes its own
//! process at once, and hands what is sent to a carrier (`crate::redis`, `crate::postgres::listen`, or none) that takes it to other processes.
//!
//! The law here: **sending never waits and never fails.** What cannot be carried is dropped, and whoever misses it looks at the log a little later.

mod hub;
mod outbox;
mod topics;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use runs::{Event, Frame, Recorded};
use tokio::sync::{broadcast, watch};
use uuid::Uuid;

pub use hub::Hub;
pub(crate) use hub::{Ends, Switch};
pub(crate) use outbox::{Batch, Outbox};
pub use topics::Following;
pub(crate) use topics::{Followed, Topic, Topics};

#[derive(Clone, Debug, PartialEq)]
pub enum Signal {
    /// The run has new events.
    Advanced(Advance),
    /// Somebody wishes the run to stop.
    Cancel(Uuid),
    /// Some session has work.
    Work,
}

/// What is said of a run's progress: the more, the less has to be read.
#[derive(Clone, Debug, PartialEq)]
pub struct Advance {
    pub run_id: Uuid,
    /// The index after its frames, where the sender knows.
    pub next: Option<u32>,
    /// The event that has the last of them, as it was committed. Never one that ends the run: that is believed of the log alone.
    pub event: Option<Arc<Recorded>>,
}

/// An event with more text than this is not carried; its index is.
const CARRIED: u64 = 16 * 1024;

impl Signal {
    /// Look at this run.
    pub fn look(run_id: Uuid) -> Signal {
        Signal::Advanced(Advance { run_id, next: None, event: None })
    }

    /// The run's log has the frames before `next`.
    pub fn up_to(run_id: Uuid, next: u32) -> Signal {
        Signal::Advanced(Advance { run_id, next: Some(next), event: None })
    }

    /// This event of the run was committed.
    pub fn committed(run_id: Uuid, event: Arc<Recorded>) -> Signal {
        let next = Some(event.next_index());
        Signal::Advanced(Advance { run_id, next, event: Some(event).filter(|event| is_exact(&event.event)) })
    }

    /// What of it goes to other processes.
    fn carried(&self) -> Signal {
        match self {
            Signal::Advanced(advance) => {
                let event = advance.event.clone().filter(|event| is_small(&event.event));
                Signal::Advanced(Advance { event, ..advance.clone() })
            }
            other => other.clone(),
        }
    }
}

/// Whether the event is read from the log letter by letter as it is here. An end is not taken from anywhere else, and Postgres has its own way of writing
/// fractions (`1e17` comes back as a whole number).
fn is_exact(event: &Event) -> bool {
    let exact = |frame: &Frame| match frame {
        Frame::ToolCallStarted { tool } | Frame::ToolCallCompleted { tool } => !has_fraction(&tool.tool_args),
        _ => true,
    };
    match event {
        Event::Output(output) => output.frames.iter().all(exact),
        event => !event.is_terminal(),
    }
}

fn has_fraction(value: &serde_json::Value) -> bool {
    match value {
        serde_json::Value::Number(number) => number.is_f64(),
        serde_json::Value::Array(values) => values.iter().any(has_fraction),
        serde_json::Value::Object(fields) => fields.values().any(has_fraction),
        _ => false,
    }
}

fn is_small(event: &Event) -> bool {
    match event {
        Event::Output(output) => output.frames.iter().map(Frame::bytes).sum::<u64>() <= CARRIED,
        Event::SandboxStarted { .. } => true,
        // Without frames, or an end.
        _ => false,
    }
}

/// Whether signals of other processes reach this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carried {
    /// `redis`, `listen` or `poll`.
    pub carrier: &'static str,
    /// They do, as far as this process can tell. Never so for `poll`.
    pub up: bool,
    /// For people: why not.
    pub why: Option<String>,
}

#[async_trait]
pub trait Signals: Send + Sync {
    /// To whoever listens: in this process at once, in others behind.
    fn send(&self, signal: Signal);
    /// From now on. A receiver that lags has missed signals, which it must take as "look at everything".
    fn subscribe(&self) -> broadcast::Receiver<Signal>;
    /// Signals of this run's progress beyond `next` are to come here, until the answer is dropped.
    fn follow_run(&self, run_id: Uuid, next: u32) -> Following;
    /// Wishes to stop this run are to come here.
    fn follow_cancel(&self, run_id: Uuid) -> Following;
    /// Word of work is to come here.
    fn follow_work(&self) -> Following;
    /// The leases of these runs were renewed, so what a carrier keeps of them is needed for as long again.
    fn renew(&self, runs: &[Uuid]);
    fn carried(&self) -> watch::Receiver<Carried>;
    /// Waits until all that was sent is on its way or was dropped, and at most `limit`: for a process that may be frozen behind its answer.
    async fn settle(&self, limit: Duration);
}

/// The bell of workers that are functions. What goes wrong with it costs the time until the next sweep, so it is logged and never answered.
#[async_trait]
pub trait Ring: Send + Sync {
    /// Says that the session has work, after that has committed.
    async fn ring(&self, session: Uuid);
    /// Whether what is rung takes it, for people; `None` where nothing is.
    fn state(&self) -> Option<RingState> {
        None
    }
}

/// As the last ring found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingState {
    /// Nothing was rung for yet.
    Unknown,
    Ok,
    Unreachable,
}

/// Where every worker is a process that looks for itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRing;

#[async_trait]
impl Ring for NoRing {
    async fn ring(&self, _: Uuid) {}
}

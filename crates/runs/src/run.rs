//! The fold: what a run has come to, event by event.

use std::sync::Arc;

use serde_json::Value;
use thiserror::Error;
use uuid::Uuid;

use crate::event::{Event, Recorded, Submitted};

/// The sandbox that the log names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sandbox {
    pub name: String,
    pub host: String,
}

/// How far a run has come. Every arrow between phases is in `docs/STATE_MACHINE.md`, which a test compares with [`Run::apply`].
#[derive(Clone, Debug, PartialEq)]
pub enum Phase {
    /// No sandbox is intended: not yet, or the last attempt failed and the next may start at `retry_at`.
    Waiting {
        retry_at: Option<i64>,
    },
    /// A sandbox is intended; it may or may not be there.
    Requested(Sandbox),
    /// The harness has started in it.
    Started(Sandbox),
    /// The turn is over and its checkpoint is durable; the terminal event is in the same call.
    Saved,
    Completed,
    Failed,
    Cancelled,
}

impl Phase {
    pub const NAMES: [&str; 7] = ["Waiting", "Requested", "Started", "Saved", "Completed", "Failed", "Cancelled"];

    pub fn name(&self) -> &'static str {
        Self::NAMES[match self {
            Self::Waiting { .. } => 0,
            Self::Requested(_) => 1,
            Self::Started(_) => 2,
            Self::Saved => 3,
            Self::Completed => 4,
            Self::Failed => 5,
            Self::Cancelled => 6,
        }]
    }

    pub fn has_ended(&self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    pub fn sandbox(&self) -> Option<&Sandbox> {
        match self {
            Self::Requested(sandbox) | Self::Started(sandbox) => Some(sandbox),
            _ => None,
        }
    }
}

/// Who holds the run: the log's last claim, unless it was handed over since. An epoch can repeat after a failover that lost commits; the id cannot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub id: Uuid,
    pub epoch: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Shared, because it can be large and a fold copies the rest.
    pub submitted: Arc<Submitted>,
    /// The seq of the last event; an append takes the one after it.
    pub seq: u32,
    pub next_index: u32,
    pub phase: Phase,
    pub claim: Option<Claim>,
    /// Sandboxes asked for so far.
    pub attempt: u32,
    pub cancel_requested: bool,
    /// How much of the current attempt's journal is in the log, and the parser's state there.
    pub journal: u64,
    pub parser: Value,
    /// When the current attempt's harness started, by the database's clock.
    pub started_at: Option<i64>,
}

#[derive(Debug, Error)]
pub enum IllegalEvent {
    #[error("a run starts with run.submitted at seq 0, not with {0}")]
    Start(&'static str),
    #[error("{event} cannot follow when a run is {phase} (seq {seq})")]
    Order { phase: &'static str, event: &'static str, seq: u32 },
    #[error("expected seq {expected} with first index {index}, got seq {seq} with {first_index}")]
    Gap { expected: u32, index: u32, seq: u32, first_index: u32 },
}

impl Run {
    pub fn start(first: &Recorded) -> Result<Self, IllegalEvent> {
        match &first.event {
            Event::Submitted(submitted) if first.seq == 0 => Ok(Self {
                submitted: Arc::new(submitted.as_ref().clone()),
                seq: 0,
                next_index: 0,
                phase: Phase::Waiting { retry_at: None },
                claim: None,
                attempt: 0,
                cancel_requested: false,
                journal: 0,
                parser: Value::Null,
                started_at: None,
            }),
            other => Err(IllegalEvent::Start(other.kind())),
        }
    }

    /// Folds a whole log. `None` for an empty one.
    pub fn fold<'a>(log: impl IntoIterator<Item = &'a Recorded>) -> Result<Option<Self>, IllegalEvent> {
        let mut log = log.into_iter();
        let Some(first) = log.next() else { return Ok(None) };
        log.try_fold(Self::start(first)?, Self::apply).map(Some)
    }

    pub fn apply(mut self, recorded: &Recorded) -> Result<Self, IllegalEvent> {
        let (seq, first_index) = (recorded.seq, recorded.first_index);
        if seq != self.seq + 1 || first_index != self.next_index {
            return Err(IllegalEvent::Gap { expected: self.seq + 1, index: self.next_index, seq, first_index });
        }
        self.phase = match (self.phase, &recorded.event) {
            (phase @ (Phase::Waiting { .. } | Phase::Requested(_) | Phase::Started(_)), Event::Claimed(claimed)) => {
                self.claim = Some(Claim { id: claimed.claim, epoch: claimed.epoch });
                phase
            }
            (phase @ (Phase::Waiting { .. } | Phase::Requested(_) | Phase::Started(_)), Event::HandedOver { .. }) => {
                self.claim = None;
                phase
            }
            (phase @ (Phase::Waiting { .. } | Phase::Requested(_) | Phase::Started(_)), Event::CancelRequested) => {
                self.cancel_requested = true;
                phase
            }
            (Phase::Waiting { .. }, Event::SandboxRequested(asked)) => {
                (self.attempt, self.journal, self.parser, self.started_at) = (asked.attempt, 0, Value::Null, None);
                Phase::Requested(Sandbox { name: asked.name.clone(), host: asked.host.clone() })
            }
            (Phase::Requested(sandbox), Event::SandboxStarted { journal, .. }) => {
                (self.journal, self.started_at) = (*journal, Some(recorded.at));
                Phase::Started(sandbox)
            }
            (Phase::Started(sandbox), Event::Output(output)) => {
                (self.journal, self.parser) = (output.journal, output.parser.clone());
                Phase::Started(sandbox)
            }
            (Phase::Requested(_) | Phase::Started(_), Event::AttemptFailed { retry_at, .. }) => Phase::Waiting { retry_at: Some(*retry_at) },
            (Phase::Started(_), Event::CheckpointSaved { .. }) => Phase::Saved,
            (Phase::Saved, Event::Completed { .. }) => Phase::Completed,
            (Phase::Waiting { .. } | Phase::Requested(_) | Phase::Started(_) | Phase::Saved, Event::Failed { .. }) => Phase::Failed,
            (Phase::Waiting { .. } | Phase::Requested(_) | Phase::Started(_), Event::Cancelled { .. }) => Phase::Cancelled,
            (phase, event) => return Err(IllegalEvent::Order { phase: phase.name(), event: event.kind(), seq }),
        };
        (self.seq, self.next_index) = (seq, recorded.next_index());
        Ok(self)
    }

    /// Whether `claim` is the one that holds this run.
    pub fn is_held_by(&self, claim: Uuid) -> bool {
        self.claim.as_ref().is_some_and(|held| held.id == claim)
    }
}

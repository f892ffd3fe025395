//! The facts of a run's log, as they are stored for ever: `{type, v, data}`.
//!
//! A type's shape never changes: what changes it is a new `v`, whose reader ships one release before its writer. Golden files in
//! `tests/golden/` hold one of each.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use thiserror::Error;
use uuid::Uuid;

use crate::agents::Agent;
use crate::frame::{self, Frame, Metrics, Tool};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InputFile {
    pub name: String,
    pub media_type: String,
    pub size: u64,
    pub sha256: String,
}

/// What the user sent, without the attachments' bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Input {
    pub message: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<InputFile>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
}

/// The first event: the definition of the agent as it was accepted is part of it, so that the worker runs that and nothing newer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Submitted {
    pub agent: Agent,
    pub input: Input,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requeued_from: Option<Uuid>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Claimed {
    pub epoch: u64,
    pub claim: Uuid,
    pub host: String,
    pub worker: String,
}

/// The intent to make a sandbox. It is in the log before anything exists; `name` is where a repeat finds it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Requested {
    pub attempt: u32,
    pub name: String,
    pub host: String,
}

/// A batch of frames, the journal offset behind them, and the harness parser's state at that offset: one commit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Output {
    pub frames: Vec<Frame>,
    pub journal: u64,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub parser: Value,
}

/// Why an attempt failed for no fault of the turn itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// The sandbox could not be made.
    Setup,
    /// The sandbox was there and is gone without an exit record.
    SandboxLost,
    /// The host that held the sandbox has not been seen for longer than its dead-man limit.
    HostLost,
    /// Worker after worker claimed the run and died before doing anything.
    WorkersLost,
}

impl FailureClass {
    pub fn name(self) -> &'static str {
        match self {
            Self::Setup => "setup",
            Self::SandboxLost => "sandbox_lost",
            Self::HostLost => "host_lost",
            Self::WorkersLost => "workers_lost",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    Submitted(Box<Submitted>),
    Claimed(Claimed),
    SandboxRequested(Requested),
    SandboxStarted { attempt: u32, model: Option<String>, journal: u64 },
    Output(Output),
    CancelRequested,
    HandedOver { reason: String },
    AttemptFailed { attempt: u32, class: FailureClass, error: String, retry_at: i64 },
    CheckpointSaved { checkpoint: String, bytes: u64, conversation: Option<String> },
    Completed { content: String, content_type: String, truncated: bool, metrics: Metrics, tools: Vec<Tool> },
    Failed { error: String, error_type: String, started: bool, content: String, truncated: bool, metrics: Metrics, tools: Vec<Tool> },
    Cancelled { reason: String },
}

/// An event in its place in the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    pub seq: u32,
    pub first_index: u32,
    /// Milliseconds since the epoch, by the database's clock.
    pub at: i64,
    pub event: Event,
}

impl Recorded {
    pub fn next_index(&self) -> u32 {
        self.first_index + frame::count(&self.event)
    }
}

#[derive(Debug, Error)]
pub enum EventError {
    #[error("unknown event {kind} v{v}: written by a newer release?")]
    Unknown { kind: String, v: u64 },
    #[error("event {kind} does not have its shape")]
    Shape { kind: String, source: serde_json::Error },
}

macro_rules! wire {
    ($name:ident { $($(#[$meta:meta])* $field:ident : $type:ty),* $(,)? }) => {
        #[derive(Serialize, Deserialize)]
        struct $name { $($(#[$meta])* $field: $type),* }
    };
}
wire!(Started { attempt: u32, model: Option<String>, journal: u64 });
wire!(HandedOver { reason: String });
wire!(AttemptFailed { attempt: u32, class: FailureClass, error: String, retry_at: i64 });
wire!(CheckpointSaved { checkpoint: String, bytes: u64, #[serde(default, skip_serializing_if = "Option::is_none")] conversation: Option<String> });
wire!(Completed {
    content: String,
    content_type: String,
    #[serde(default)]
    truncated: bool,
    metrics: Metrics,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool>,
});
wire!(Failed {
    error: String,
    error_type: String,
    started: bool,
    #[serde(default)]
    content: String,
    #[serde(default)]
    truncated: bool,
    #[serde(default)]
    metrics: Metrics,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool>,
});
wire!(Cancelled { reason: String });

impl Event {
    pub const KINDS: [&str; 12] = [
        "run.submitted",
        "run.claimed",
        "sandbox.requested",
        "sandbox.started",
        "output",
        "cancel.requested",
        "handed_over",
        "attempt.failed",
        "checkpoint.saved",
        "run.completed",
        "run.failed",
        "run.cancelled",
    ];

    pub fn kind(&self) -> &'static str {
        Self::KINDS[match self {
            Self::Submitted(_) => 0,
            Self::Claimed(_) => 1,
            Self::SandboxRequested(_) => 2,
            Self::SandboxStarted { .. } => 3,
            Self::Output(_) => 4,
            Self::CancelRequested => 5,
            Self::HandedOver { .. } => 6,
            Self::AttemptFailed { .. } => 7,
            Self::CheckpointSaved { .. } => 8,
            Self::Completed { .. } => 9,
            Self::Failed { .. } => 10,
            Self::Cancelled { .. } => 11,
        }]
    }

    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Completed { .. } | Self::Failed { .. } | Self::Cancelled { .. })
    }

    /// What stands in the column `data`: the event's fields and its version.
    pub fn to_stored(&self) -> Value {
        let mut data = match self.clone() {
            Self::Submitted(data) => json(&data),
            Self::Claimed(data) => json(&data),
            Self::SandboxRequested(data) => json(&data),
            Self::SandboxStarted { attempt, model, journal } => json(&Started { attempt, model, journal }),
            Self::Output(data) => json(&data),
            Self::CancelRequested => Value::Object(Map::new()),
            Self::HandedOver { reason } => json(&HandedOver { reason }),
            Self::AttemptFailed { attempt, class, error, retry_at } => json(&AttemptFailed { attempt, class, error, retry_at }),
            Self::CheckpointSaved { checkpoint, bytes, conversation } => json(&CheckpointSaved { checkpoint, bytes, conversation }),
            Self::Completed { content, content_type, truncated, metrics, tools } => {
                json(&Completed { content, content_type, truncated, metrics, tools })
            }
            Self::Failed { error, error_type, started, content, truncated, metrics, tools } => {
                json(&Failed { error, error_type, started, content, truncated, metrics, tools })
            }
            Self::Cancelled { reason } => json(&Cancelled { reason }),
        };
        if let Value::Object(fields) = &mut data {
            fields.insert("v".into(), 1.into());
        }
        data
    }

    pub fn from_stored(kind: &str, data: Value) -> Result<Self, EventError> {
        let v = data.get("v").and_then(Value::as_u64).unwrap_or(0);
        if v != 1 {
            return Err(EventError::Unknown { kind: kind.into(), v });
        }
        let shape = |source| EventError::Shape { kind: kind.into(), source };
        Ok(match kind {
            "run.submitted" => Self::Submitted(serde_json::from_value(data).map_err(shape)?),
            "run.claimed" => Self::Claimed(serde_json::from_value(data).map_err(shape)?),
            "sandbox.requested" => Self::SandboxRequested(serde_json::from_value(data).map_err(shape)?),
            "sandbox.started" => {
                let Started { attempt, model, journal } = serde_json::from_value(data).map_err(shape)?;
                Self::SandboxStarted { attempt, model, journal }
            }
            "output" => Self::Output(serde_json::from_value(data).map_err(shape)?),
            "cancel.requested" => Self::CancelRequested,
            "handed_over" => Self::HandedOver { reason: serde_json::from_value::<HandedOver>(data).map_err(shape)?.reason },
            "attempt.failed" => {
                let AttemptFailed { attempt, class, error, retry_at } = serde_json::from_value(data).map_err(shape)?;
                Self::AttemptFailed { attempt, class, error, retry_at }
            }
            "checkpoint.saved" => {
                let CheckpointSaved { checkpoint, bytes, conversation } = serde_json::from_value(data).map_err(shape)?;
                Self::CheckpointSaved { checkpoint, bytes, conversation }
            }
            "run.completed" => {
                let Completed { content, content_type, truncated, metrics, tools } = serde_json::from_value(data).map_err(shape)?;
                Self::Completed { content, content_type, truncated, metrics, tools }
            }
            "run.failed" => {
                let Failed { error, error_type, started, content, truncated, metrics, tools } = serde_json::from_value(data).map_err(shape)?;
                Self::Failed { error, error_type, started, content, truncated, metrics, tools }
            }
            "run.cancelled" => Self::Cancelled { reason: serde_json::from_value::<Cancelled>(data).map_err(shape)?.reason },
            _ => return Err(EventError::Unknown { kind: kind.into(), v }),
        })
    }
}

/// Our own plain structs always serialize; `Null` would be refused by the reader, never stored silently as something else.
fn json<T: Serialize>(data: &T) -> Value {
    serde_json::to_value(data).unwrap_or(Value::Null)
}

//! What an exit record means, for any harness.

use runs::agents::Limits;
use runs::{FailureClass, Metrics};

use crate::sandbox::Exit;

/// The word in an order to kill, and in the exit record after `killed:`.
pub(crate) const CANCEL: &str = "cancel";
pub(crate) const OUTPUT_LIMIT: &str = "output_limit";
pub(crate) const ANSWERED: &str = "answered";

/// What a harness that ended by itself came to: its answer, where that is another than all it said, or the error and its type.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    pub outcome: Result<Option<Said>, (String, String)>,
    pub metrics: Metrics,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    pub content: String,
    pub content_type: &'static str,
    pub truncated: bool,
}

/// Why a harness that goes on by itself is to be ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stop {
    /// In the order to kill.
    pub(crate) word: &'static str,
    pub(crate) error: String,
    pub(crate) error_type: &'static str,
}

/// How a turn ended, as its journal tells.
#[derive(Clone, Debug, PartialEq)]
pub enum Ending {
    /// The harness ended by itself, well or badly: its workspace is kept.
    Judged(Judged),
    /// It was ended, or never started: the workspace goes back to the checkpoint before.
    Failed { error: String, error_type: String, metrics: Metrics },
    /// No fault of the turn: another attempt may do better.
    Lost { class: FailureClass, error: String },
}

impl Ending {
    pub(super) fn failed(error: String, error_type: &str) -> Self {
        Self::Failed { error, error_type: error_type.into(), metrics: Metrics::default() }
    }

    /// With the duration, where the harness did not tell its own.
    pub(super) fn timed(mut self, timed: Metrics) -> Self {
        if let Self::Judged(Judged { metrics, .. }) | Self::Failed { metrics, .. } = &mut self {
            metrics.duration = metrics.duration.or(timed.duration);
        }
        self
    }
}

/// How it ended, for people.
pub(super) fn how(exit: &Exit) -> String {
    match (exit.code, exit.signal) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "no exit status".into(),
    }
}

/// An end that the harness did not choose.
pub(super) fn limit_or_loss(exit: &Exit, limits: &Limits) -> Option<Ending> {
    let seconds = limits.time as f64 / 1000.0;
    match exit.reason.as_deref() {
        Some("time_limit") => Some(Ending::failed(format!("the turn took longer than its limit of {seconds} s"), "time_limit")),
        Some("disk_limit") => Some(Ending::failed(format!("workspace and home took more than their limit of {} bytes", limits.disk), "disk_limit")),
        Some(reason) if reason.strip_prefix("killed:") == Some(OUTPUT_LIMIT) => {
            Some(Ending::failed(format!("the run said more than its limit of {} bytes", limits.output), OUTPUT_LIMIT))
        }
        Some(reason) => Some(Ending::Lost { class: FailureClass::SandboxLost, error: format!("the sandbox was ended: {reason}") }),
        None if exit.oom && exit.code != Some(0) => {
            Some(Ending::failed(format!("the turn used more memory than its limit of {} bytes", limits.memory), "memory_limit"))
        }
        None => None,
    }
}

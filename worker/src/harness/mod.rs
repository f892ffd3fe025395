//! From a journal's records to frames and a verdict. Pure: frames are a function of the journal's prefix, whoever reads it and however it is cut.

mod claude;
mod command;
mod exit;
pub mod launch;
mod tail;

use runs::agents::Harness;
use runs::{Frame, Metrics, Submitted};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::sandbox::{Body, Exit, Record};
use claude::Claude;
use command::Command;
#[cfg(test)]
mod tests;

use exit::OUTPUT_LIMIT;
pub(crate) use exit::{ANSWERED, CANCEL};
pub use exit::{Ending, Said};

/// What one kind of harness makes of its output. The state is part of every commit, so it is small, and a release reads that of the one before.
pub(crate) trait Parser: Send + Sync {
    fn read(&mut self, body: &Body) -> Vec<Frame>;
    /// Whether a commit may end here. Where not, the record that follows is part of what this one began, and no frame comes before that is done.
    fn is_whole(&self) -> bool {
        true
    }
    fn state(&self) -> Value;
    /// Whether it is to be ended: nothing good can come any more.
    fn stop(&self) -> Option<exit::Stop> {
        None
    }
    /// Whether the turn has come to something, and all that is missing is the harness's end.
    fn has_answered(&self) -> bool {
        false
    }
    /// How the turn ended, of a harness that ended by itself.
    fn judge(&self, exit: &Exit) -> exit::Judged;
}

/// The reading of one attempt's journal.
pub struct Reading {
    parser: Box<dyn Parser>,
    kept: Kept,
    /// Where a commit may end, while what was read last is only a part of something.
    before: Option<Value>,
    limit: u64,
    /// What stood in the way of the harness's start.
    not_started: Option<String>,
    not_set_up: Option<String>,
}

/// What is kept for every kind of harness.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Kept {
    /// When the harness started, by the runner's clock.
    started: Option<u64>,
    /// Bytes of frames so far.
    bytes: u64,
    over: bool,
}

#[derive(Serialize, Deserialize)]
struct State {
    v: u32,
    #[serde(flatten)]
    kept: Kept,
    #[serde(default)]
    harness: Value,
}

impl Reading {
    /// From where the log is: `state` is what the last commit holds, `Null` at the start.
    pub fn resume(submitted: &Submitted, state: &Value, started_at: Option<i64>) -> Self {
        let State { mut kept, harness, .. } =
            State::deserialize(state).unwrap_or_else(|_| State { v: 1, kept: Kept::default(), harness: Value::Null });
        // A start that the log has, but no output after it: the log's clock has to do.
        kept.started = kept.started.or_else(|| started_at.and_then(|at| u64::try_from(at).ok()));
        let parser: Box<dyn Parser> = match &submitted.agent.harness {
            Harness::Command { .. } => Box::new(Command::resume(&harness)),
            Harness::Claude { .. } => Box::new(Claude::resume(&harness, submitted.input.output_schema.is_some())),
        };
        Self { parser, kept, before: None, limit: submitted.agent.limits.output, not_started: None, not_set_up: None }
    }

    /// What a commit holds. It belongs to the end of the last record after which the reading [is whole](Self::is_whole).
    pub fn state(&self) -> Value {
        self.before.clone().unwrap_or_else(|| self.now())
    }

    /// Whether a commit may end after the last record. A line that comes in pieces is committed whole, or read again.
    pub fn is_whole(&self) -> bool {
        self.parser.is_whole()
    }

    fn now(&self) -> Value {
        serde_json::to_value(State { v: 1, kept: self.kept.clone(), harness: self.parser.state() }).unwrap_or(Value::Null)
    }

    /// The frames that the record adds.
    pub fn read(&mut self, record: &Record) -> Vec<Frame> {
        match &record.body {
            Body::Started => self.kept.started = Some(record.at_ms),
            Body::StartFailed { message } => self.not_started = Some(message.clone()),
            Body::SetupFailed { message } => self.not_set_up = Some(message.clone()),
            _ => {}
        }
        if self.before.is_none() && matches!(record.body, Body::Out { end_of_line: false, .. }) {
            self.before = Some(self.now());
        }
        let mut frames = self.parser.read(&record.body);
        if self.parser.is_whole() {
            self.before = None;
        }
        for (at, frame) in frames.iter().enumerate() {
            self.kept.bytes += frame.bytes();
            if self.kept.bytes > self.limit {
                self.kept.over = true;
                frames.truncate(at);
                break;
            }
        }
        frames
    }

    /// The word of the order to kill, where nothing more of the run is wanted: it said more than it may, or cannot come to anything.
    pub fn stop(&self) -> Option<&'static str> {
        if self.kept.over { Some(OUTPUT_LIMIT) } else { self.parser.stop().map(|stop| stop.word) }
    }

    /// Whether nothing more is needed of the harness but that it ends.
    pub fn has_answered(&self) -> bool {
        self.parser.has_answered()
    }

    /// How the turn ended.
    pub fn judge(&self, exit: &Exit, at_ms: u64, limits: &runs::agents::Limits) -> Ending {
        if let Some(message) = &self.not_set_up {
            return Ending::Lost { class: runs::FailureClass::Setup, error: message.clone() };
        }
        if let Some(message) = &self.not_started {
            return Ending::failed(format!("the harness could not be started: {message}"), "not_started");
        }
        if self.kept.over {
            return Ending::failed(format!("the run said more than its limit of {} bytes", limits.output), "output_limit");
        }
        if let Some(stop) = self.parser.stop() {
            return Ending::failed(stop.error, stop.error_type).timed(self.duration(at_ms));
        }
        let ended = if exit.reason.as_deref().and_then(|reason| reason.strip_prefix("killed:")) == Some(ANSWERED) {
            None
        } else {
            exit::limit_or_loss(exit, limits)
        };
        ended.unwrap_or_else(|| Ending::Judged(self.parser.judge(exit))).timed(self.duration(at_ms))
    }

    fn duration(&self, at_ms: u64) -> Metrics {
        let seconds = self.kept.started.map(|started| at_ms.saturating_sub(started) as f64 / 1000.0);
        Metrics { duration: seconds, ..Metrics::default() }
    }
}

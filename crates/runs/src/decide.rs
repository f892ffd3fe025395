//! From a wish or a verdict to the events that it means. What comes out always folds (a property test).

use crate::agents::{Agent, Network};
use crate::event::{Event, FailureClass};
use crate::frame::{Metrics, Tool};
use crate::run::{Phase, Run};

/// Milliseconds before another attempt.
const RETRY_AFTER: i64 = 1_000;

/// How a turn ended, judged from its journal.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    Completed { content: String, content_type: String, truncated: bool, metrics: Metrics, tools: Vec<Tool> },
    Failed { error: String, error_type: String, started: bool, content: String, truncated: bool, metrics: Metrics, tools: Vec<Tool> },
}

/// What was kept of a turn: the workspace, and what the harness calls its conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    pub id: String,
    pub bytes: u64,
    pub conversation: Option<String>,
}

/// The user wishes the run to stop. Where no sandbox is intended nothing can be running, so the end is decided at once.
pub fn cancel(run: &Run) -> Vec<Event> {
    if run.phase.has_ended() {
        return Vec::new();
    }
    let wish = (!run.cancel_requested).then_some(Event::CancelRequested);
    let end = matches!(run.phase, Phase::Waiting { .. }).then(cancelled);
    wish.into_iter().chain(end).collect()
}

/// The end that follows a wish to cancel, once the tree is proven gone.
pub fn cancelled() -> Event {
    Event::Cancelled { reason: "cancelled by request".into() }
}

/// The attempt is over without a verdict: another one, or the run's end.
pub fn attempt_failed(run: &Run, class: FailureClass, error: &str, now: i64) -> Event {
    if run.may_retry() && run.phase.sandbox().is_some() {
        return Event::AttemptFailed { attempt: run.attempt, class, error: error.into(), retry_at: now + RETRY_AFTER };
    }
    Event::Failed {
        error: error.into(),
        error_type: class.name().into(),
        started: run.started_at.is_some(),
        content: String::new(),
        truncated: false,
        metrics: Metrics::default(),
        tools: Vec::new(),
    }
}

/// The turn is over: the checkpoint, where one was taken, and the terminal event. A turn whose workspace is not saved has not completed: the
/// next one could not go on from it.
pub fn finish(verdict: Verdict, checkpoint: Option<Checkpoint>) -> Vec<Event> {
    let end = match verdict {
        Verdict::Completed { content, truncated, metrics, tools, .. } if checkpoint.is_none() => Event::Failed {
            error: "the workspace was not saved".into(),
            error_type: "checkpoint".into(),
            started: true,
            content,
            truncated,
            metrics,
            tools,
        },
        Verdict::Completed { content, content_type, truncated, metrics, tools } => {
            Event::Completed { content, content_type, truncated, metrics, tools }
        }
        Verdict::Failed { error, error_type, started, content, truncated, metrics, tools } => {
            Event::Failed { error, error_type, started, content, truncated, metrics, tools }
        }
    };
    let saved = checkpoint.map(|Checkpoint { id, bytes, conversation }| Event::CheckpointSaved { checkpoint: id, bytes, conversation });
    saved.into_iter().chain([end]).collect()
}

/// With no way out, or one to the model only, a second attempt starts from the last checkpoint and nothing outside was touched twice.
pub fn attempts(agent: &Agent) -> u32 {
    agent.attempts.unwrap_or(match agent.network {
        Network::None | Network::Isolated => 2,
        Network::Open => 1,
    })
}

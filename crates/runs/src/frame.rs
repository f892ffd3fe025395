//! What viewers see: frames, numbered from 0 without gaps over the whole run.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::event::{Event, Recorded};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Metrics {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// Seconds from the harness's start to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Tool {
    pub tool_call_id: String,
    pub tool_name: String,
    pub tool_args: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_error: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "event")]
pub enum Frame {
    RunStarted {
        model: Option<String>,
        attempt: u32,
    },
    RunContent {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reasoning_content: Option<String>,
    },
    ToolCallStarted {
        tool: Tool,
    },
    ToolCallCompleted {
        tool: Tool,
    },
    RunCompleted {
        content: String,
        content_type: String,
        metrics: Metrics,
    },
    RunError {
        content: String,
        error_type: String,
    },
    RunCancelled {
        reason: String,
    },
}

/// What a frame counts for beside its text.
const ENVELOPE: u64 = 32;

impl Frame {
    pub fn content(text: String) -> Self {
        Self::RunContent { content: Some(text), reasoning_content: None }
    }

    pub fn name(&self) -> &'static str {
        match self {
            Self::RunStarted { .. } => "RunStarted",
            Self::RunContent { .. } => "RunContent",
            Self::ToolCallStarted { .. } => "ToolCallStarted",
            Self::ToolCallCompleted { .. } => "ToolCallCompleted",
            Self::RunCompleted { .. } => "RunCompleted",
            Self::RunError { .. } => "RunError",
            Self::RunCancelled { .. } => "RunCancelled",
        }
    }

    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::RunCompleted { .. } | Self::RunError { .. } | Self::RunCancelled { .. })
    }

    /// How much of a run's output limit the frame takes: the text that the harness made, and a fixed part for what the log keeps around it. Without that
    /// part a program that prints empty lines could make millions of frames.
    pub fn bytes(&self) -> u64 {
        let len = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let bytes = match self {
            Self::RunContent { content, reasoning_content } => len(content) + len(reasoning_content),
            Self::ToolCallStarted { tool } | Self::ToolCallCompleted { tool } => tool.tool_args.to_string().len() + len(&tool.result),
            _ => return 0,
        };
        ENVELOPE + bytes as u64
    }
}

/// The frames of an event, in order. Replay and live both come from here, so they cannot differ.
pub fn frames(event: &Event) -> Vec<Cow<'_, Frame>> {
    match event {
        Event::SandboxStarted { attempt, model, .. } => vec![Cow::Owned(Frame::RunStarted { model: model.clone(), attempt: *attempt })],
        Event::Output(output) => output.frames.iter().map(Cow::Borrowed).collect(),
        Event::Completed { content, content_type, metrics, .. } => {
            vec![Cow::Owned(Frame::RunCompleted { content: content.clone(), content_type: content_type.clone(), metrics: metrics.clone() })]
        }
        Event::Failed { error, error_type, .. } => {
            vec![Cow::Owned(Frame::RunError { content: error.clone(), error_type: error_type.clone() })]
        }
        Event::Cancelled { reason } => vec![Cow::Owned(Frame::RunCancelled { reason: reason.clone() })],
        _ => Vec::new(),
    }
}

/// How many frames an event has, without making them.
pub fn count(event: &Event) -> u32 {
    match event {
        Event::Output(output) => u32::try_from(output.frames.len()).unwrap_or(u32::MAX),
        Event::SandboxStarted { .. } => 1,
        event if event.is_terminal() => 1,
        _ => 0,
    }
}

/// The frames of a recorded event with their indexes.
pub fn indexed(recorded: &Recorded) -> impl Iterator<Item = (u32, Cow<'_, Frame>)> {
    (recorded.first_index..).zip(frames(&recorded.event))
}

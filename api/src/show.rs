//! Runs and sessions as clients see them, and as the document describes them.

use ::runs::{Event, InputFile, Metrics, Status, Tool};
use adapters::{RunRow, SessionRow};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;
use uuid::Uuid;

/// One turn of a session.
#[derive(Serialize, ToSchema)]
pub(crate) struct Run {
    pub(crate) run_id: Uuid,
    pub(crate) agent_id: String,
    pub(crate) session_id: String,
    #[schema(required)]
    pub(crate) user_id: Option<String>,
    pub(crate) status: Status,
    /// What it answered, as far as that is kept; nothing before its end.
    #[schema(required)]
    pub(crate) content: Option<String>,
    /// `str`, or what the harness says of structured output.
    pub(crate) content_type: String,
    /// Seconds since the epoch, as all times.
    pub(crate) created_at: i64,
    #[schema(required)]
    pub(crate) started_at: Option<i64>,
    #[schema(required)]
    pub(crate) ended_at: Option<i64>,
    /// How often it was started.
    pub(crate) attempt: u32,
    pub(crate) messages: Vec<Message>,
    pub(crate) tools: Vec<Tool>,
    pub(crate) metrics: Metrics,
    pub(crate) input: Input,
    pub(crate) metadata: Map<String, Value>,
    /// The run of the session that has to end before.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) waiting_on: Option<Uuid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) waiting_for: Option<WaitingFor>,
    /// True, where it is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) cancel_requested: Option<bool>,
    /// True, where it is there: `content` is not all that was said.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) content_truncated: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) error_type: Option<String>,
    /// The message, where a run is read as one of a session: Agno's client looks for it there.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) run_input: Option<String>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct Message {
    /// `user` or `assistant`.
    role: &'static str,
    content: String,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct Input {
    input_content: String,
    files: Vec<File>,
}

/// What was attached, without its bytes.
#[derive(Serialize, ToSchema)]
pub(crate) struct File {
    id: String,
    name: String,
    filename: String,
    media_type: String,
    size: u64,
    sha256: String,
}

/// The host that has the session's workspace, and does not answer.
#[derive(Serialize, ToSchema)]
pub(crate) struct WaitingFor {
    host: String,
    since: i64,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct Session {
    session_id: String,
    // Agno's client wants both in a session; it has no names here.
    session_name: String,
    agent_session_id: String,
    /// Always `agent`.
    session_type: &'static str,
    agent_id: String,
    #[schema(required)]
    user_id: Option<String>,
    created_at: i64,
    updated_at: i64,
    run_count: u64,
}

/// A page of a list.
#[derive(Serialize, ToSchema)]
pub(crate) struct Page<T: ToSchema> {
    data: Vec<T>,
    meta: Meta,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct Meta {
    limit: u32,
    /// The `cursor` of the next page; nothing on the last.
    #[schema(required)]
    next_cursor: Option<Uuid>,
}

pub(crate) fn run(row: RunRow) -> Run {
    let end = end(row.terminal);
    let input = row.submitted.input;
    let mut messages = vec![Message { role: "user", content: input.message.clone() }];
    messages.extend(end.content.clone().filter(|text| !text.is_empty()).map(|content| Message { role: "assistant", content }));
    Run {
        run_id: row.run_id,
        agent_id: row.agent_id,
        session_id: row.session_id,
        user_id: row.user_id,
        status: row.status,
        content: end.content,
        content_type: end.content_type,
        created_at: seconds(row.created_at),
        started_at: row.started_at.map(seconds),
        ended_at: row.ended_at.map(seconds),
        attempt: row.attempt,
        messages,
        tools: end.tools,
        metrics: end.metrics,
        input: Input { input_content: input.message, files: input.files.into_iter().map(file).collect() },
        metadata: input.metadata,
        waiting_on: row.waiting_on,
        waiting_for: row.waiting_for.map(|waiting| WaitingFor { host: waiting.host, since: seconds(waiting.since) }),
        cancel_requested: row.cancel_requested.then_some(true),
        content_truncated: end.truncated.then_some(true),
        error: end.error,
        error_type: end.error_type,
        run_input: None,
    }
}

pub(crate) fn file(file: InputFile) -> File {
    let InputFile { name, media_type, size, sha256 } = file;
    File { id: sha256.clone(), filename: name.clone(), name, media_type, size, sha256 }
}

/// What the terminal event says of the run.
#[derive(Default)]
struct End {
    content: Option<String>,
    content_type: String,
    truncated: bool,
    metrics: Metrics,
    tools: Vec<Tool>,
    error: Option<String>,
    error_type: Option<String>,
}

fn end(terminal: Option<Event>) -> End {
    /// Agno's name for plain text.
    const TEXT: &str = "str";
    match terminal {
        Some(Event::Completed { content, content_type, truncated, metrics, tools }) => {
            End { content: Some(content), content_type, truncated, metrics, tools, ..End::default() }
        }
        Some(Event::Failed { error, error_type, content, truncated, metrics, tools, .. }) => {
            End { content: Some(content), content_type: TEXT.into(), truncated, metrics, tools, error: Some(error), error_type: Some(error_type) }
        }
        _ => End { content_type: TEXT.into(), ..End::default() },
    }
}

pub(crate) fn session(row: SessionRow) -> Session {
    Session {
        session_name: row.session_id.clone(),
        agent_session_id: row.session_id.clone(),
        session_id: row.session_id,
        session_type: "agent",
        agent_id: row.agent_id,
        user_id: row.user_id,
        created_at: seconds(row.created_at),
        updated_at: seconds(row.updated_at),
        run_count: row.runs,
    }
}

/// `meta` has what Agno's client reads and the cursor of the next page.
pub(crate) fn page<T: ToSchema>(data: Vec<T>, limit: u32, next: Option<adapters::Cursor>) -> Page<T> {
    Page { data, meta: Meta { limit, next_cursor: next.map(|cursor| cursor.0) } }
}

pub(crate) fn seconds(millis: i64) -> i64 {
    millis.div_euclid(1000)
}

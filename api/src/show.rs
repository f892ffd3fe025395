//! Runs and sessions as clients see them (docs/API.md).

use ::runs::{Event, InputFile, Metrics, Tool};
use adapters::{RunRow, SessionRow};
use serde_json::{Map, Value, json};

pub(crate) fn run(row: &RunRow) -> Value {
    let end = end(row.terminal.as_ref());
    let input = &row.submitted.input;
    let files: Vec<_> = input.files.iter().map(file).collect();
    let mut messages = vec![json!({ "role": "user", "content": input.message })];
    messages.extend(end.content.filter(|text| !text.is_empty()).map(|text| json!({ "role": "assistant", "content": text })));
    let mut run = Map::new();
    let mut put = |key: &str, value: Value| run.insert(key.into(), value);
    put("run_id", json!(row.run_id));
    put("agent_id", json!(row.agent_id));
    put("session_id", json!(row.session_id));
    put("user_id", json!(row.user_id));
    put("status", json!(row.status));
    put("content", json!(end.content));
    put("content_type", json!(end.content_type));
    put("created_at", json!(seconds(row.created_at)));
    put("started_at", json!(row.started_at.map(seconds)));
    put("ended_at", json!(row.ended_at.map(seconds)));
    put("attempt", json!(row.attempt));
    put("messages", json!(messages));
    put("tools", json!(end.tools));
    put("metrics", json!(end.metrics));
    put("input", json!({ "input_content": input.message, "files": files }));
    put("metadata", json!(input.metadata));
    let optional = [
        ("waiting_on", row.waiting_on.map(|run| json!(run))),
        ("waiting_for", row.waiting_for.as_ref().map(|waiting| json!({ "host": waiting.host, "since": seconds(waiting.since) }))),
        ("cancel_requested", row.cancel_requested.then_some(json!(true))),
        ("content_truncated", end.truncated.then_some(json!(true))),
        ("error", end.error.map(|error| json!(error))),
        ("error_type", end.error_type.map(|kind| json!(kind))),
    ];
    for (key, value) in optional {
        value.map(|value| put(key, value));
    }
    Value::Object(run)
}

/// What was attached, without its bytes.
pub(crate) fn file(file: &InputFile) -> Value {
    json!({ "id": file.sha256, "name": file.name, "filename": file.name, "media_type": file.media_type, "size": file.size, "sha256": file.sha256 })
}

/// What the terminal event says of the run.
#[derive(Default)]
struct End<'a> {
    content: Option<&'a str>,
    content_type: &'a str,
    truncated: bool,
    metrics: Metrics,
    tools: &'a [Tool],
    error: Option<&'a str>,
    error_type: Option<&'a str>,
}

fn end(terminal: Option<&Event>) -> End<'_> {
    /// Agno's name for plain text.
    const TEXT: &str = "str";
    match terminal {
        Some(Event::Completed { content, content_type, truncated, metrics, tools }) => {
            End { content: Some(content), content_type, truncated: *truncated, metrics: metrics.clone(), tools, ..End::default() }
        }
        Some(Event::Failed { error, error_type, content, truncated, metrics, tools, .. }) => End {
            content: Some(content),
            content_type: TEXT,
            truncated: *truncated,
            metrics: metrics.clone(),
            tools,
            error: Some(error),
            error_type: Some(error_type),
        },
        _ => End { content_type: TEXT, ..End::default() },
    }
}

pub(crate) fn session(row: &SessionRow) -> Value {
    json!({
        "session_id": row.session_id,
        // Agno's client wants both in a session; it has no names here.
        "session_name": row.session_id,
        "agent_session_id": row.session_id,
        "session_type": "agent",
        "agent_id": row.agent_id,
        "user_id": row.user_id,
        "created_at": seconds(row.created_at),
        "updated_at": seconds(row.updated_at),
        "run_count": row.runs,
    })
}

/// A page of a list; `meta` has what Agno's client reads and the cursor of the next page.
pub(crate) fn page(data: Vec<Value>, limit: u32, next: Option<adapters::Cursor>) -> Value {
    json!({ "data": data, "meta": { "limit": limit, "next_cursor": next.map(|cursor| cursor.0) } })
}

pub(crate) fn seconds(millis: i64) -> i64 {
    millis.div_euclid(1000)
}

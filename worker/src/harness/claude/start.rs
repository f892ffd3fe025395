//! How the CLI is started, and what it is told.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::launch::{Conversation, Program, Shown, block};

/// Conversations, and what it remembers beside them. The rest of `~/.claude` is made anew, and has this machine's ids.
pub(in crate::harness) const KEEPS: [&str; 1] = ["home/.claude/projects"];
/// The model's API, by egress's name for it.
pub(in crate::harness) const UPSTREAM: &str = "anthropic";
/// Where egress listens inside, and its way to this API.
const API: &str = "http://127.0.0.1:8787/anthropic";
/// About 15 s of trying: more is for the caller to decide.
const RETRIES: &str = "5";

pub(in crate::harness) struct Options<'a> {
    pub(in crate::harness) model: &'a str,
    pub(in crate::harness) permission_mode: Option<&'a str>,
    pub(in crate::harness) max_turns: Option<u32>,
}

pub(in crate::harness) fn program(options: &Options<'_>, schema: Option<&Value>, session: Uuid, resumed: Option<&str>) -> Program {
    let mut command: Vec<String> = ["claude", "-p", "--verbose", "--include-partial-messages"].map(String::from).into();
    let mut say = |option: &str, value: String| command.extend([option.to_owned(), value]);
    say("--input-format", "stream-json".into());
    say("--output-format", "stream-json".into());
    say("--model", options.model.into());
    if let Some(mode) = options.permission_mode {
        say("--permission-mode", mode.into());
    }
    if let Some(turns) = options.max_turns {
        say("--max-turns", turns.to_string());
    }
    if let Some(schema) = schema {
        say("--json-schema", schema.to_string());
    }
    match resumed {
        Some(conversation) => say("--resume", conversation.into()),
        None => say("--session-id", conversation(session).id),
    }
    let env = [
        ("ANTHROPIC_BASE_URL", API),
        // The key is added outside.
        ("ANTHROPIC_API_KEY", "placeholder"),
        ("CLAUDE_CODE_MAX_RETRIES", RETRIES),
        // A turn ends with its answer. What the model left running would keep the CLI, which waits for it, up to the time limit.
        ("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "1"),
        // There is nobody else to talk to.
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
        ("DISABLE_AUTOUPDATER", "1"),
        ("DISABLE_TELEMETRY", "1"),
        ("DISABLE_ERROR_REPORTING", "1"),
        ("IS_SANDBOX", "1"),
    ];
    Program { command, env: env.map(|(name, value)| (name.into(), value.into())).into() }
}

/// The session's internal id names it, so that a repeat of a first turn finds the same.
pub(in crate::harness) fn conversation(session: Uuid) -> Conversation {
    let id = session.to_string();
    let file = format!("{}/-workspace/{id}.jsonl", KEEPS[0]);
    Conversation { id, file }
}

/// The user's message as one line: what the model can look at, then the text, and where the files are.
pub(in crate::harness) fn message(text: &str, files: &[Shown<'_>]) -> Vec<u8> {
    let mut content: Vec<Value> = files.iter().filter_map(|(_, file)| block(&file.body)).collect();
    let mut text = text.to_owned();
    if !files.is_empty() {
        text.push_str("\n\nAttached files:");
        for (path, file) in files {
            text.push_str(&format!("\n{path} ({}, {} bytes)", file.media_type, file.body.len()));
        }
    }
    content.push(json!({ "type": "text", "text": text }));
    let mut line = json!({ "type": "user", "message": { "role": "user", "content": content } }).to_string().into_bytes();
    line.push(b'\n');
    line
}

//! How a turn starts: the program and its environment, what goes in, and what is kept of it. Pure.

use adapters::Attachment;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use runs::Input;
use runs::agents::{Agent, Harness};
use serde_json::{Value, json};
use uuid::Uuid;

use super::claude;

/// A piece of standard input: what the inbox takes is bounded.
const PIECE: usize = 8 * 1024 * 1024;

/// A program to start. It is looked up inside the sandbox, and inherits nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    pub command: Vec<String>,
    pub env: Vec<(String, String)>,
}

/// The conversation that a harness keeps in its home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversation {
    pub id: String,
    /// Where it is, from the sandbox's folder: only what is there can be taken up again.
    pub file: String,
}

/// An attachment and its path inside.
pub type Shown<'a> = (String, &'a Attachment);

/// `resumed`: the conversation of the session's last turn, where the checkpoint has it.
pub fn program(agent: &Agent, input: &Input, session: Uuid, resumed: Option<&str>) -> Program {
    match &agent.harness {
        Harness::Command { command } => Program { command: command.clone(), env: Vec::new() },
        Harness::Claude { permission_mode, max_turns } => {
            let model = agent.model.as_deref().unwrap_or_default();
            let options = claude::Options { model, permission_mode: permission_mode.as_deref(), max_turns: *max_turns };
            claude::program(&options, input.output_schema.as_ref(), session, resumed)
        }
    }
}

/// Whether the attachments are part of what goes in.
pub fn takes_files(agent: &Agent, input: &Input) -> bool {
    !input.files.is_empty() && matches!(agent.harness, Harness::Claude { .. })
}

/// What goes in by standard input, in pieces; it is closed after the last.
pub fn input(agent: &Agent, input: &Input, files: &[Shown<'_>]) -> Vec<Vec<u8>> {
    let bytes = match &agent.harness {
        Harness::Command { .. } => input.message.clone().into_bytes(),
        Harness::Claude { .. } => claude::message(&input.message, files),
    };
    if bytes.len() <= PIECE { vec![bytes] } else { bytes.chunks(PIECE).map(<[u8]>::to_vec).collect() }
}

/// What it may ask of egress, where it is let out to it.
pub fn upstreams(agent: &Agent) -> &'static [&'static str] {
    match &agent.harness {
        // A command can be a client of either.
        Harness::Command { .. } => &["anthropic", "openai"],
        Harness::Claude { .. } => &[claude::UPSTREAM],
    }
}

/// What a checkpoint has beside the workspace, as paths from the sandbox's folder.
pub fn keeps(agent: &Agent) -> &'static [&'static str] {
    match &agent.harness {
        Harness::Command { .. } => &[],
        Harness::Claude { .. } => &claude::KEEPS,
    }
}

/// All that any harness keeps.
pub const KEEPS: [&str; 1] = claude::KEEPS;

pub fn conversation(agent: &Agent, session: Uuid) -> Option<Conversation> {
    match &agent.harness {
        Harness::Command { .. } => None,
        Harness::Claude { .. } => Some(claude::conversation(session)),
    }
}

/// An image or a document as a block of the Messages API, by what its bytes are: what a client called something else would be refused by the API, with
/// every later turn of the conversation.
pub(super) fn block(body: &[u8]) -> Option<Value> {
    let (kind, media_type) = match body {
        [0x89, b'P', b'N', b'G', ..] => ("image", "image/png"),
        [0xFF, 0xD8, 0xFF, ..] => ("image", "image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => ("image", "image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => ("image", "image/webp"),
        [b'%', b'P', b'D', b'F', b'-', ..] => ("document", "application/pdf"),
        _ => return None,
    };
    let source = json!({ "type": "base64", "media_type": media_type, "data": BASE64_STANDARD.encode(body) });
    Some(json!({ "type": kind, "source": source }))
}

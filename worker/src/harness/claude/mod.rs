//! The harness `claude`: the Claude Code CLI over stream-json. Each line of its output is a JSON object; fields and kinds that are not known are passed
//! over, since each of its releases adds some.

mod calls;
mod mend;
mod parts;
mod result;
mod seen;
mod start;
#[cfg(test)]
mod tests;

use runs::{Frame, Metrics, Tool};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::exit::{Judged, Stop};
use super::tail::Tail;
use super::{Parser, exit};
use crate::sandbox::{Body, Door, Exit};
use calls::Calls;
use parts::Parts;
use result::Outcome;
use seen::{Kind, Seen};
pub(super) use start::{KEEPS, Options, UPSTREAM, conversation, message, program};

/// The model API does not take the key.
const AUTH: &str = "auth";
/// Its answers did not come, or not whole.
const MODEL: &str = "model_api";
/// The harness failed by itself.
const FAILED: &str = "harness_failed";
/// What a line may be, with what else comes meanwhile: a line is committed whole, and uncommitted journal is at most 16 MiB.
const LINE: usize = 12 * 1024 * 1024;
/// The longest text of one frame: events are at most half a mebibyte.
const FRAME: usize = 128 * 1024;

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Claude {
    /// The pieces of a line that has not ended. Never in a commit: who goes on reads them again.
    #[serde(skip)]
    line: Vec<u8>,
    /// What came since the line began.
    #[serde(skip)]
    held: usize,
    /// A line is too long and passed over to its end.
    #[serde(default)]
    skipping: bool,
    #[serde(default)]
    error: Tail,
    #[serde(default)]
    seen: Seen,
    #[serde(default)]
    calls: Calls,
    #[serde(default)]
    parts: Parts,
    /// What the model API said to the key, where it does not take it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
    /// The last answer of the model was cut off.
    #[serde(default)]
    cut: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    outcome: Option<Outcome>,
    #[serde(default)]
    metrics: Metrics,
    /// Whether the answer has to fit a schema: of the submission, not of the journal.
    #[serde(skip)]
    wants_schema: bool,
}

impl Claude {
    pub(super) fn resume(state: &Value, wants_schema: bool) -> Self {
        Self { wants_schema, ..Self::deserialize(state).unwrap_or_default() }
    }

    fn out(&mut self, bytes: &[u8], end_of_line: bool) -> Vec<Frame> {
        if self.skipping {
            self.skipping = !end_of_line;
            return Vec::new();
        }
        self.line.extend_from_slice(bytes);
        if self.hold(bytes) {
            self.skipping = !end_of_line;
            return self.left_out();
        }
        if end_of_line { self.whole_line() } else { Vec::new() }
    }

    /// Whether too much has come since the line began.
    fn hold(&mut self, bytes: &[u8]) -> bool {
        self.held += bytes.len();
        self.held > LINE
    }

    fn left_out(&mut self) -> Vec<Frame> {
        self.drop_line();
        vec![Frame::content(format!("\n[a line of output over {LINE} bytes is left out]\n"))]
    }

    fn whole_line(&mut self) -> Vec<Frame> {
        let bytes = std::mem::take(&mut self.line);
        self.drop_line();
        let text = String::from_utf8_lossy(&bytes);
        match serde_json::from_str::<Value>(&mend::mend(&text)) {
            Ok(line) => self.line(&line),
            // Not the CLI's own.
            Err(_) => Vec::new(),
        }
    }

    fn drop_line(&mut self) {
        (self.line, self.held) = (Vec::new(), 0);
    }

    fn line(&mut self, line: &Value) -> Vec<Frame> {
        // Of what subagents say, viewers see the calls; their words are for the one that asked them.
        let own = line["parent_tool_use_id"].is_null();
        match line["type"].as_str() {
            Some("stream_event") if own => self.event(&line["event"]),
            Some("assistant") => self.assistant(&line["message"], own),
            Some("user") => {
                if own {
                    self.parts.told(line);
                }
                let results = blocks(&line["message"]).filter(|block| block["type"] == "tool_result");
                results.filter_map(|block| self.calls.end(block)).map(|tool| Frame::ToolCallCompleted { tool }).collect()
            }
            Some("system") if line["subtype"] == "api_retry" => {
                if let (None, Some(status @ (401 | 403))) = (&self.refused, line["error_status"].as_u64()) {
                    let why = line["error"].as_str().unwrap_or("refused");
                    self.refused = Some(format!("the model API does not take the key: status {status}, {why}"));
                }
                Vec::new()
            }
            Some("result") => {
                result::add_metrics(&mut self.metrics, line);
                self.outcome = Some(Outcome::read(line, &self.parts.take()));
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// A request to the model is over. The CLI tries again where the key is not taken, and may take half an answer for a whole one.
    fn door(&mut self, door: &Door) {
        if door.cut && door.refused.as_deref() == Some("egress") {
            // Egress did not live to say what it was, so it may have been an answer.
            self.cut = true;
            return;
        }
        if door.upstream != UPSTREAM || door.path != "/v1/messages" {
            return;
        }
        // The last request decides. Of an answer that broke off the CLI keeps nothing and asks again, or it keeps the whole blocks, has the model know of
        // it (or of the calls' results), and asks it to go on (`parts`). Either way what counts is made with the request after, if that one is whole.
        self.cut = door.cut;
        match (door.refused.as_deref(), door.status) {
            (Some("key"), _) => self.refused = Some("there is no key for the model API: egress needs ANTHROPIC_API_KEY".into()),
            (None, Some(status @ (401 | 403))) => self.refused = Some(format!("the model API does not take the key: status {status}")),
            _ => {}
        }
    }

    /// A part of a message as it streams.
    fn event(&mut self, event: &Value) -> Vec<Frame> {
        match event["type"].as_str() {
            Some("message_start") => self.seen.message(event["message"]["id"].as_str().unwrap_or_default()),
            Some("content_block_delta") => {
                let (delta, block) = (&event["delta"], event["index"].as_u64().unwrap_or(0));
                let (kind, text) = match delta["type"].as_str() {
                    Some("text_delta") => (Kind::Text, &delta["text"]),
                    Some("thinking_delta") => (Kind::Thinking, &delta["thinking"]),
                    _ => return Vec::new(),
                };
                if let Some(text) = text.as_str().filter(|text| !text.is_empty()) {
                    self.seen.delta(kind, block);
                    return said(kind, text);
                }
            }
            _ => {}
        }
        Vec::new()
    }

    /// Whole blocks of a message: what its deltas did not show, and the calls.
    fn assistant(&mut self, message: &Value, own: bool) -> Vec<Frame> {
        // The CLI's own words for an error, which the result has too.
        let own = own && message["model"] != "<synthetic>";
        let id = message["id"].as_str().unwrap_or_default();
        let mut frames = Vec::new();
        for block in blocks(message) {
            if own {
                self.parts.block(id, block);
            }
            let (kind, text) = match block["type"].as_str() {
                Some("text") => (Kind::Text, &block["text"]),
                Some("thinking") => (Kind::Thinking, &block["thinking"]),
                Some("tool_use") => {
                    frames.extend(self.calls.start(block).map(|tool: Tool| Frame::ToolCallStarted { tool }));
                    continue;
                }
                _ => continue,
            };
            if let Some(text) = text.as_str().filter(|text| own && !text.is_empty())
                && !self.seen.is_shown(id, kind)
            {
                frames.extend(said(kind, text));
            }
        }
        frames
    }
}

/// The blocks of a message; a plain text has none of those that matter here.
fn blocks(message: &Value) -> impl Iterator<Item = &Value> {
    message["content"].as_array().into_iter().flatten()
}

fn said(kind: Kind, mut text: &str) -> Vec<Frame> {
    let mut frames = Vec::new();
    while !text.is_empty() {
        let (piece, rest) = text.split_at(text.floor_char_boundary(FRAME));
        text = rest;
        frames.push(match kind {
            Kind::Text => Frame::content(piece.into()),
            Kind::Thinking => Frame::RunContent { content: None, reasoning_content: Some(piece.into()) },
        });
    }
    frames
}

impl Parser for Claude {
    fn read(&mut self, body: &Body) -> Vec<Frame> {
        match body {
            Body::Out { bytes, end_of_line } => self.out(bytes, *end_of_line),
            Body::Err { bytes, .. } => {
                self.error.push(bytes);
                if self.is_whole() || !self.hold(bytes) {
                    return Vec::new();
                }
                self.skipping = true;
                self.left_out()
            }
            Body::Door(door) => {
                self.door(door);
                Vec::new()
            }
            // Most often cut off, and then no JSON.
            Body::Exit(_) => self.whole_line(),
            _ => Vec::new(),
        }
    }

    fn is_whole(&self) -> bool {
        self.line.is_empty()
    }

    fn state(&self) -> Value {
        serde_json::to_value(self).unwrap_or(Value::Null)
    }

    /// The CLI would try again for minutes.
    fn stop(&self) -> Option<Stop> {
        self.refused.as_ref().map(|error| Stop { word: AUTH, error: error.clone(), error_type: AUTH })
    }

    fn has_answered(&self) -> bool {
        self.outcome.is_some()
    }

    fn judge(&self, exit: &Exit) -> Judged {
        let judged = match &self.outcome {
            Some(outcome) => match outcome.judge(self.wants_schema) {
                Ok(_) if self.cut => Err(("the model's answer was cut off".into(), MODEL.into())),
                judged => judged.map(Some),
            },
            None => Err((self.error.after(format!("the harness ended without a result, with {}", exit::how(exit))), FAILED.into())),
        };
        Judged { outcome: judged, metrics: self.metrics.clone() }
    }
}

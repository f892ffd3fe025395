//! Tool calls that have started and not ended: what a completed call repeats of its start.

use runs::Tool;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::mend::{bounded, shortened};

/// What viewers see of a call's arguments and of its result, in bytes.
const ARGS: usize = 16 * 1024;
const RESULT: usize = 64 * 1024;
/// Arguments that are kept for all open calls together, and calls: the state is part of every commit.
const KEPT: usize = 128 * 1024;
const CALLS: usize = 256;

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Calls(Vec<Call>);

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Call {
    id: String,
    name: String,
    args: Value,
}

impl Calls {
    /// A call, from its whole block. `None` for one that has been told.
    pub(super) fn start(&mut self, block: &Value) -> Option<Tool> {
        let (id, name) = (block["id"].as_str()?, block["name"].as_str().unwrap_or_default());
        if self.0.iter().any(|call| call.id == id) {
            return None;
        }
        let args = shortened(&block["input"], ARGS);
        self.0.push(Call { id: id.into(), name: name.into(), args: args.clone() });
        self.forget();
        Some(Tool { tool_call_id: id.into(), tool_name: name.into(), tool_args: args, result: None, tool_call_error: None })
    }

    /// Its end, from the block of its result.
    pub(super) fn end(&mut self, block: &Value) -> Option<Tool> {
        let id = block["tool_use_id"].as_str()?;
        let call = self.0.iter().position(|call| call.id == id).map(|at| self.0.remove(at));
        let (name, args) = call.map_or_else(|| (String::new(), Value::Null), |call| (call.name, call.args));
        Some(Tool {
            tool_call_id: id.into(),
            tool_name: name,
            tool_args: args,
            result: Some(bounded(&text(&block["content"]), RESULT)),
            tool_call_error: Some(block["is_error"].as_bool().unwrap_or(false)),
        })
    }

    /// Of too many open calls the oldest lose their arguments first, then all.
    fn forget(&mut self) {
        let mut kept = 0;
        for call in self.0.iter_mut().rev() {
            kept += call.args.to_string().len();
            if kept > KEPT {
                call.args = Value::Null;
            }
        }
        let over = self.0.len().saturating_sub(CALLS);
        self.0.drain(..over);
    }
}

/// A result is a text, or blocks.
fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let shown = |block: &Value| match block["type"].as_str() {
                Some("text") => block["text"].as_str().unwrap_or_default().to_owned(),
                kind => format!("[{}]", kind.unwrap_or("block")),
            };
            blocks.iter().map(shown).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

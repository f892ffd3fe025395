//! An answer in parts. Where a message breaks off after a whole block, or at the limit of its tokens, the CLI keeps it, has the model go on from there, and
//! names as its result the last part alone.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::blocks;
use super::result::{ANSWER, end};

/// What the CLI says to the model there, in both of its wordings.
const GO_ON: &str = "Resume directly";

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Parts {
    /// The message that came last, and its words.
    #[serde(default)]
    message: String,
    #[serde(default)]
    last: String,
    /// Those of the parts that it goes on from.
    #[serde(default)]
    before: String,
}

impl Parts {
    /// A whole block of the model's own message.
    pub(super) fn block(&mut self, message: &str, block: &Value) {
        match block["type"].as_str() {
            Some("text") => {
                if self.message != message {
                    (self.message, self.last) = (message.into(), String::new());
                }
                push(&mut self.last, block["text"].as_str().unwrap_or_default());
            }
            // What was said before a call is no part of the answer after it.
            Some("tool_use") => *self = Self::default(),
            _ => {}
        }
    }

    /// A line of the type `user`, which goes to the model.
    pub(super) fn told(&mut self, line: &Value) {
        let goes_on = |block: &Value| block["text"].as_str().is_some_and(|text| text.contains(GO_ON));
        if line["isSynthetic"] == true && blocks(&line["message"]).any(goes_on) {
            let last = std::mem::take(&mut self.last);
            push(&mut self.before, &last);
        }
    }

    /// What comes before the result's own words.
    pub(super) fn take(&mut self) -> String {
        std::mem::take(self).before
    }
}

fn push(to: &mut String, text: &str) {
    to.push_str(text);
    let over = to.len() - end(to, ANSWER).len();
    to.drain(..over);
}

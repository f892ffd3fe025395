//! The harness `command`: reads the message on its standard input; each line it prints is a frame; exit code 0 is success, else that code and the end
//! of its standard error are the error.

use runs::{Frame, Metrics, visible};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::exit::Judged;
use super::tail::Tail;
use super::{Parser, exit};
use crate::sandbox::{Body, Exit};

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Command {
    /// The end of standard error.
    #[serde(default)]
    error: Tail,
    /// The start of a character that a piece of a long line was cut in.
    #[serde(default)]
    cut: Vec<u8>,
}

impl Command {
    pub(super) fn resume(state: &Value) -> Self {
        Self::deserialize(state).unwrap_or_default()
    }

    fn out(&mut self, bytes: &[u8], end_of_line: bool) -> Vec<Frame> {
        let mut line = std::mem::take(&mut self.cut);
        line.extend_from_slice(bytes);
        if !end_of_line {
            self.cut = line.split_off(line.len() - unfinished(&line));
        }
        if line.is_empty() { Vec::new() } else { vec![Frame::content(visible(&line))] }
    }
}

/// How many bytes at the end are the start of a character that more bytes could finish.
fn unfinished(bytes: &[u8]) -> usize {
    let longest = bytes.len().min(3);
    (1..=longest)
        .find(|len| {
            let end = &bytes[bytes.len() - len..];
            std::str::from_utf8(end).is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
        })
        .unwrap_or(0)
}

impl Parser for Command {
    fn read(&mut self, body: &Body) -> Vec<Frame> {
        match body {
            Body::Out { bytes, end_of_line } => self.out(bytes, *end_of_line),
            Body::Err { bytes, .. } => {
                self.error.push(bytes);
                Vec::new()
            }
            // What was cut off by the end is shown as it is.
            Body::Exit(_) if !self.cut.is_empty() => vec![Frame::content(visible(&std::mem::take(&mut self.cut)))],
            _ => Vec::new(),
        }
    }

    fn state(&self) -> Value {
        serde_json::to_value(self).unwrap_or(Value::Null)
    }

    fn judge(&self, exit: &Exit) -> Judged {
        let outcome = match exit.code {
            Some(0) => Ok(None),
            _ => Err((self.error.after(format!("the command ended with {}", exit::how(exit))), "command_failed".into())),
        };
        Judged { outcome, metrics: Metrics::default() }
    }
}

//! The harness `command`: reads the message on its standard input; each line it prints is a frame; exit code 0 is success, else the end of its
//! standard error is the error.

use runs::{Frame, Metrics, visible};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Parser;
use super::exit::Judged;
use crate::sandbox::{Body, Exit};

/// How much of the end of standard error is kept.
const ERROR_TAIL: usize = 4096;

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Command {
    /// The end of standard error.
    #[serde(default)]
    error: String,
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
                self.error.push_str(&visible(bytes));
                let cut = self.error.ceil_char_boundary(self.error.len().saturating_sub(ERROR_TAIL));
                self.error.drain(..cut);
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
        let outcome = match (exit.code, exit.signal) {
            (Some(0), _) => Ok(()),
            (code, signal) => {
                let how = match (code, signal) {
                    (Some(code), _) => format!("exit code {code}"),
                    (None, Some(signal)) => format!("signal {signal}"),
                    (None, None) => "no exit status".into(),
                };
                let error = if self.error.trim().is_empty() { format!("the command ended with {how}") } else { self.error.trim_end().into() };
                Err((error, "command_failed".into()))
            }
        };
        Judged { outcome, metrics: Metrics::default() }
    }
}

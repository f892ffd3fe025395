//! The end of what a harness says on its standard error: what is told where it ended badly without a word of its own.

use runs::visible;
use serde::{Deserialize, Serialize};

/// How much is kept.
const LIMIT: usize = 4096;

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Tail(String);

impl Tail {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.0.push_str(&visible(bytes));
        let cut = self.0.ceil_char_boundary(self.0.len().saturating_sub(LIMIT));
        self.0.drain(..cut);
    }

    /// How the program ended, and what it said of it.
    pub(super) fn after(&self, how: String) -> String {
        let said = self.0.trim();
        if said.is_empty() { how } else { format!("{how}: {said}") }
    }
}

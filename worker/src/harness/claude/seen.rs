//! What viewers have seen of the message that streams: its deltas come first, then its whole blocks, and nothing is to be shown twice.

use serde::{Deserialize, Serialize};

/// The two kinds of blocks that stream as frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Thinking,
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Seen {
    /// The message that streams, or streamed last.
    #[serde(default)]
    message: String,
    #[serde(default)]
    text: Blocks,
    #[serde(default)]
    thinking: Blocks,
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Blocks {
    /// The block whose deltas came last.
    last: Option<u64>,
    /// Blocks of which deltas were shown, and those of them that came whole since.
    streamed: u64,
    whole: u64,
}

impl Seen {
    pub(super) fn message(&mut self, id: &str) {
        *self = Self { message: id.into(), ..Self::default() };
    }

    pub(super) fn delta(&mut self, kind: Kind, block: u64) {
        let blocks = self.blocks(kind);
        if blocks.last != Some(block) {
            (blocks.last, blocks.streamed) = (Some(block), blocks.streamed + 1);
        }
    }

    /// Whether a whole block was shown by deltas already. Blocks of a kind come whole in the order in which they streamed.
    pub(super) fn is_shown(&mut self, message: &str, kind: Kind) -> bool {
        if self.message != message {
            return false;
        }
        let blocks = self.blocks(kind);
        let shown = blocks.whole < blocks.streamed;
        blocks.whole += u64::from(shown);
        shown
    }

    fn blocks(&mut self, kind: Kind) -> &mut Blocks {
        match kind {
            Kind::Text => &mut self.text,
            Kind::Thinking => &mut self.thinking,
        }
    }
}

//! The journal: an append-only file of records, the only source of what a turn put out.
//!
//! A record is `[0xA7][kind u8][payload length u32][unix ms u64][payload][crc32 u32]`, numbers little-endian, the checksum over all before it. A torn tail is
//! the end of the stream so far; a wrong byte is an error. Offsets are byte offsets of record ends; what is committed before an offset may be a hole of zeros,
//! so the first byte that is not zero starts the first record that is left.

mod codec;
mod crc;
mod door;
mod file;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use codec::{Corrupt, Decoder, MAGIC, MAX_PAYLOAD, PIECE, encode};
pub use door::Door;
pub use file::has_exit;

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// When the runner wrote it, in milliseconds since 1970.
    pub at_ms: u64,
    /// What it says.
    pub body: Body,
}

/// What a record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// The harness's program runs.
    Started,
    /// The sandbox stands, but the harness's program could not be started in it: trying again will not help.
    StartFailed {
        /// Like `/no/such/program: No such file or directory`.
        message: String,
    },
    /// The sandbox itself could not be set up: trying again may help.
    SetupFailed {
        /// What bubblewrap or the system said.
        message: String,
    },
    /// A line of standard output, its newline included.
    Out {
        /// The bytes as they came.
        bytes: Vec<u8>,
        /// False for all but the last piece of a line longer than [`PIECE`], and for a last line without a newline.
        end_of_line: bool,
    },
    /// The same of standard error.
    Err {
        /// The bytes as they came.
        bytes: Vec<u8>,
        /// As in [`Body::Out`].
        end_of_line: bool,
    },
    /// A request to the outside is over, or refused.
    Door(Box<Door>),
    /// The end: the tree is gone and the pipes are drained. Always the last record, also after a failed start.
    Exit(Exit),
}

/// How a turn's processes ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// The harness's exit code as a shell would tell it (128 + n after signal n); none when the whole sandbox was killed.
    pub code: Option<i32>,
    /// The signal that ended it, as far as can be told: 9 when the whole sandbox was killed, n where the code is 128 + n.
    pub signal: Option<i32>,
    /// Why the runner ended it: `time_limit`, `disk_limit`, `dead_man` or `killed:` and the order's word. None when the harness ended by itself.
    pub reason: Option<String>,
    /// The memory limit killed at least one of its processes.
    pub oom: bool,
}

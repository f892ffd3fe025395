//! What a runner is to run: `spec.json` in its folder, written by the worker before the runner starts.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The file's name.
pub const FILE: &str = "spec.json";
/// Where the attachments are, inside.
pub const FILES: &str = "/run/sandlog/files";
/// Where the host's tools are, inside: programs in its `bin` are found before the system's.
pub const TOOLS: &str = "/opt/sandlog/tools";

/// What to run, for whom and within which limits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// The deployment that the sandbox belongs to.
    pub deployment: String,
    /// A word for cgroups and logs, unique on the host: `a-z`, `0-9`, `-` and `_`.
    pub label: String,
    /// Program and arguments; the program is looked up inside.
    pub command: Vec<String>,
    /// Added to the sandbox's own variables.
    pub env: Vec<(String, String)>,
    /// Where it starts, inside.
    pub cwd: String,
    /// The limits.
    pub limits: Limits,
    /// Whom the sandbox is as the host sees it; `None`: whoever the runner is, which must not be root.
    pub user: Option<User>,
    /// The way to the outside; without it there is nothing but the sandbox's own loopback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outside: Option<Outside>,
    /// The bubblewrap program.
    pub bwrap: String,
    /// A folder of programs for the inside; read-only there.
    #[serde(default)]
    pub tools: Option<String>,
    /// Kill when no visit counted for so long.
    pub dead_man_ms: u64,
    /// The harness's output is left unread while so much of the journal is not committed.
    pub max_uncommitted: u64,
}

/// What a sandbox reaches through egress, at [`crate::egress::PORT`] of its loopback.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outside {
    /// Egress's folder.
    pub egress: PathBuf,
    /// The upstreams that it may use, by name.
    pub upstreams: Vec<String>,
}

/// A user kept for sandboxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// Its uid, not 0.
    pub uid: u32,
    /// Its gid, not 0.
    pub gid: u32,
}

/// The limits of a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Bytes, swap included.
    pub memory: u64,
    /// Processors' worth of time.
    pub cpus: f64,
    /// Processes and threads.
    pub processes: u64,
    /// Bytes in workspace and home together.
    pub disk: u64,
    /// Milliseconds from the harness's start.
    pub time_ms: u64,
}

impl Spec {
    /// Reads a folder's spec.
    pub fn read(folder: &Path) -> io::Result<Self> {
        Ok(serde_json::from_slice(&std::fs::read(folder.join(FILE))?)?)
    }

    /// Writes it into a folder.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        std::fs::write(folder.join(FILE), serde_json::to_vec(self)?)
    }
}

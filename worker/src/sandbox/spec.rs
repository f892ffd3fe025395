//! What to run in a sandbox, and within which limits.

use std::time::Duration;

/// What a sandbox is made for.
#[derive(Clone, Debug, PartialEq)]
pub struct SandboxSpec {
    /// Program and arguments; the program is looked up inside the sandbox.
    pub command: Vec<String>,
    /// Added to the sandbox's own few variables (`PATH`, `HOME`, `USER`, `LANG`, `TMPDIR`, `SANDLOG_FILES`); nothing else is inherited.
    pub env: Vec<(String, String)>,
    /// The limits.
    pub limits: Limits,
    /// What it can reach.
    pub network: Network,
    /// The runner kills its sandbox when it has heard no [`super::Orders::alive`] for so long.
    pub dead_man: Duration,
}

/// A sandbox's limits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Bytes of memory, swap included.
    pub memory: u64,
    /// Processors' worth of time.
    pub cpus: f64,
    /// Processes and threads.
    pub processes: u64,
    /// Bytes in workspace and home together.
    pub disk: u64,
    /// From the harness's start to its end.
    pub time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { memory: 2 << 30, cpus: 2.0, processes: 256, disk: 2 << 30, time: Duration::from_secs(15 * 60) }
    }
}

/// What a sandbox can reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Network {
    /// Nothing but its own loopback.
    None,
    /// Its own loopback, where egress answers at `127.0.0.1:8787`: below `/NAME`, it is the upstream of that name.
    Isolated {
        /// The upstreams that it may use.
        upstreams: Vec<String>,
    },
}

//! What the daemon hands on to the stages after it.

use std::os::fd::RawFd;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// For the stage, which is a fork.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The runner: who must be alive.
    pub(crate) parent: i32,
    /// Groups to join.
    pub(crate) cgroups: Vec<PathBuf>,
    /// Bubblewrap tells the sandbox's first process here.
    pub(crate) info: RawFd,
    /// For `exec`.
    pub(crate) inside: Inside,
}

/// For `exec`, inside the sandbox, as JSON in an argument. Nothing secret is in it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Inside {
    /// One byte lets `stage` go on, a second one `exec`; its end means that the runner is dead.
    pub(crate) go: RawFd,
    /// `exec` says a byte as it is there, and why it could not start the harness; its end means that the harness runs.
    pub(crate) status: RawFd,
    /// The harness's standard error; until `exec` it is bubblewrap's own.
    pub(crate) err: RawFd,
    /// This program.
    pub(crate) exe: RawFd,
    /// The lock that the sandbox's first process holds, which `exec` is.
    pub(crate) alive: RawFd,
    /// Where `exec` sends the listener of the way to the outside, if there is one.
    pub(crate) outside: Option<RawFd>,
    /// A limit of processes where no cgroup has one.
    pub(crate) processes: Option<u64>,
}

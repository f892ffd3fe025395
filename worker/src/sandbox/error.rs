//! How a sandbox back end fails.

use std::io;

/// Why a back end could not do as asked.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// A newer claim of the session has been here: the caller has lost its lease.
    #[error("fenced: epoch {epoch} has been here")]
    Fenced {
        /// The epoch that stands.
        epoch: u64,
    },
    /// Nothing stands at the place.
    #[error("there is no sandbox")]
    Absent,
    /// The sandbox could not be set up; trying again may help.
    #[error("the sandbox could not be set up: {0}")]
    SetUp(String),
    /// A runner is there but does not answer as it should, or another call holds the session's fence for too long; trying again may help.
    #[error("the sandbox does not answer: {0}")]
    Unreachable(String),
    /// The journal's bytes are not what a runner writes.
    #[error("the journal is corrupt: {0}")]
    Corrupt(String),
    /// This host cannot have such sandboxes at all.
    #[error("{0}")]
    Unsupported(String),
    /// The file system or the system failed.
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: String,
        /// How it failed.
        source: io::Error,
    },
}

impl SandboxError {
    /// An [`SandboxError::Io`] maker for `map_err`.
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}

//! Where a harness runs, as the rest of the worker sees it: the port [`Sandboxes`] and the words that go over it.
//!
//! A back end keeps sandboxes that outlive every worker. It is asked by [`Place`], which derives from session, run and attempt, so that a repeat finds what
//! the first call made. Every call carries the epoch of the claim that makes it.
//!
//! The law: after an answer to epoch N (or more) for a session, no older epoch can create a sandbox there or give an order to one. What is answered as
//! [`Seen::Lost`] or stopped is proven gone, process tree and all.

mod attached;
mod error;
pub mod namespace;
mod spec;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

pub use attached::{Attached, Batch, Orders, Records, Sent};
pub use error::SandboxError;
pub use runner::door::Order;
pub use runner::journal::{Body, Door, Exit, Record};
pub use runner::spec::FILES;
pub use runs::Seen;
pub use spec::{Limits, Network, SandboxSpec};

/// Which sandbox: one attempt of one run of a session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The session's internal id, never the client's.
    pub session: Uuid,
    /// `{run}-{attempt}`: only `a-z`, `0-9` and `-`, at most 100 characters.
    pub name: String,
}

/// The folders of a sandbox, as the worker reaches them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// Where they stand, by the names `workspace`, `home` and `files`.
    pub folder: PathBuf,
    /// Inside: `/workspace`.
    pub workspace: PathBuf,
    /// Inside: `/home/agent`.
    pub home: PathBuf,
    /// Inside: what `SANDLOG_FILES` names, read-only.
    pub files: PathBuf,
}

/// Restores the checkpoint and writes the attachments into a sandbox's fresh folders. It may block. What it writes is given to the sandbox's user afterwards.
pub type FillFn = Box<dyn FnOnce(&Paths) -> io::Result<()> + Send>;

/// A back end for sandboxes.
#[async_trait]
pub trait Sandboxes: Send + Sync {
    /// The word for it in an agent's definition: `namespace`.
    fn kind(&self) -> &'static str;

    /// The id of the host that its sandboxes are on.
    fn host(&self) -> &str;

    /// Raises the session's fence to `epoch`, then says what stands at the place.
    async fn look(&self, at: &Place, epoch: u64) -> Result<Seen, SandboxError>;

    /// Makes the sandbox and starts its runner. Does nothing where one stands already (live, ended or lost).
    async fn create(&self, at: &Place, epoch: u64, spec: &SandboxSpec, fill: FillFn) -> Result<(), SandboxError>;

    /// The journal from `offset` (the end of a record, or 0) and the way to give orders. Of a dead runner the journal is read from its file, and orders go
    /// nowhere. The records end after the exit record, or where a dead runner stopped writing.
    async fn attach(&self, at: &Place, epoch: u64, offset: u64) -> Result<Attached, SandboxError>;

    /// The sandbox's folders, for the checkpoint once it has ended.
    async fn paths(&self, at: &Place) -> Paths;

    /// Kills the sandbox with `reason` in its exit record, and returns once its whole tree is proven gone, whether its runner lives or not. Idempotent.
    async fn stop(&self, at: &Place, epoch: u64, reason: &str, grace: Duration) -> Result<(), SandboxError>;

    /// Stops it where needed, dismisses its runner and removes all that stands at the place. Idempotent.
    async fn remove(&self, at: &Place, epoch: u64) -> Result<(), SandboxError>;

    /// All that stands on this host, for the sweep.
    async fn list(&self) -> Result<Vec<Place>, SandboxError>;

    /// Removes what is left of a run that has ended, whatever epoch stands: no claim of it will come.
    async fn sweep(&self, at: &Place) -> Result<(), SandboxError>;

    /// For the end of a whole stack: its runner ends, whatever epoch stands. A turn that is over stays to be read by the next worker; one that is not is
    /// ended and removed.
    async fn retire(&self, at: &Place) -> Result<(), SandboxError>;

    /// Removes all of a session, its fence with it. Only for a session that will never run again.
    async fn erase(&self, session: Uuid) -> Result<(), SandboxError>;

    /// Ends what the back end keeps for its sandboxes, unless some that stand need it. For the end of a host's only worker, after its sandboxes' end.
    async fn close(&self) -> Result<(), SandboxError> {
        Ok(())
    }
}

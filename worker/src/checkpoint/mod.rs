//! Checkpoints: a session's workspace as of the end of a turn, and what the harness keeps of the conversation.
//!
//! A checkpoint is written whole and durable before the call that makes it the session's; what no call made so is garbage that the session's next
//! checkpoint removes.

mod folder;
mod pack;
#[cfg(test)]
mod tests;

use std::io;

use async_trait::async_trait;
use uuid::Uuid;

use crate::sandbox::Paths;

pub use folder::Folder;

/// Whether a file that a checkpoint would keep is in a sandbox: no link counts.
pub(crate) fn has(sandbox: &Paths, file: &str) -> bool {
    pack::stands(&sandbox.folder, file).is_some_and(|meta| meta.is_file())
}

/// Where checkpoints are kept.
#[async_trait]
pub trait Checkpoints: Send + Sync {
    /// Keeps a sandbox's workspace and what its harness keeps beside it (paths from the sandbox's folder) under a name of the session's; answers the
    /// checkpoint's id and its size in bytes. A repeat replaces. A later turn's name sorts behind an earlier one's.
    async fn save(&self, session: Uuid, name: &str, sandbox: &Paths, keeps: &'static [&'static str]) -> io::Result<(String, u64)>;
    /// Fills a sandbox's empty folders. It blocks.
    fn restore(&self, checkpoint: &str, sandbox: &Paths) -> io::Result<()>;
    /// Removes the session's checkpoints that are older than these; without any, all of them.
    async fn keep_only(&self, session: Uuid, keep: &[&str]) -> io::Result<()>;
}

//! Checkpoints: a session's workspace as of the end of a turn.
//!
//! A checkpoint is written whole and durable before the call that makes it the session's; what no call made so is garbage that the session's next
//! checkpoint removes.

mod folder;
mod pack;
#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;

use async_trait::async_trait;
use uuid::Uuid;

pub use folder::Folder;

/// Where checkpoints are kept.
#[async_trait]
pub trait Checkpoints: Send + Sync {
    /// Keeps the workspace under a name of the session's; answers the checkpoint's id and its size in bytes. A repeat replaces.
    async fn save(&self, session: Uuid, name: &str, workspace: &Path) -> io::Result<(String, u64)>;
    /// Fills an empty workspace. It blocks.
    fn restore(&self, checkpoint: &str, workspace: &Path) -> io::Result<()>;
    /// Removes the session's checkpoints but for these.
    async fn keep_only(&self, session: Uuid, keep: &[&str]) -> io::Result<()>;
}

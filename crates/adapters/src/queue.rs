//! The port of operators: how many runs there are, which, and what is done again.

use async_trait::async_trait;
use runs::{InputFile, Status};
use thiserror::Error;
use uuid::Uuid;

use crate::{Cursor, LogError, Page};

/// Runs by status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub pending: u64,
    pub running: u64,
    pub completed: u64,
    pub error: u64,
    pub cancelled: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueStats {
    pub counts: Counts,
    /// When the run was accepted that has waited longest for its first claim. Milliseconds since the epoch.
    pub oldest: Option<i64>,
    /// By the log's clock.
    pub now: i64,
}

/// A run without what was said in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    pub run_id: Uuid,
    pub session_id: String,
    pub agent_id: String,
    pub user_id: Option<String>,
    pub status: Status,
    /// The kind of sandbox that it needs.
    pub kind: String,
    pub attempt: u32,
    pub cancel_requested: bool,
    pub created_at: i64,
    pub started_at: Option<i64>,
    pub ended_at: Option<i64>,
    pub held: Option<Held>,
    /// Where its sandbox is.
    pub host: Option<String>,
    /// Not before then is it attempted again.
    pub retry_at: Option<i64>,
    /// Of a single job only, as the rest below: a list does not read events.
    pub files: Option<Vec<InputFile>>,
    pub requeued_from: Option<Uuid>,
    /// The error and its type.
    pub failure: Option<(String, String)>,
}

/// Who drives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    pub worker: String,
    pub lease_until: i64,
}

/// The new run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requeued {
    pub run_id: Uuid,
    pub session_id: String,
    pub session: Uuid,
    pub agent_id: String,
}

#[derive(Debug, Error)]
pub enum QueueError {
    #[error("there is no such run")]
    Unknown,
    #[error("the run has not ended")]
    NotEnded,
    #[error("workers of several hosts live, and one alone can read the checkpoints")]
    ManyHosts,
    #[error(transparent)]
    Log(#[from] LogError),
}

#[async_trait]
pub trait Queue: Send + Sync {
    /// Costs the same whatever the number of runs.
    async fn stats(&self) -> Result<QueueStats, LogError>;
    /// Newest first.
    async fn jobs(&self, status: Option<Status>, cursor: Option<Cursor>, limit: u32) -> Result<Page<Job>, LogError>;
    async fn job(&self, run_id: Uuid) -> Result<Option<Job>, LogError>;
    /// A new run of what an ended one was, at its session's tail: the definition that was recorded, the input, the attachments. The queue's limit
    /// does not hold for it; what [`crate::Terms::one_host`] says does.
    async fn requeue(&self, run_id: Uuid, one_host: bool) -> Result<Requeued, QueueError>;
}

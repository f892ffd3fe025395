//! The ports of the log, and what goes through them.

use async_trait::async_trait;
use runs::{Event, Recorded, Status, Submitted};
use thiserror::Error;
use uuid::Uuid;

/// The log could not be asked, or did not answer sense. What was refused by rule has a type of its own.
#[derive(Debug, Error)]
pub enum LogError {
    #[error("the log cannot be reached")]
    Unreachable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// There is no log, or none that can be written: the schema, a table or a function is not there, or the server is a read-only standby.
    #[error("there is no log that can be written: {0}")]
    Missing(String),
    /// A table is not what this build needs; the text names it and says what to do.
    #[error("{0}")]
    Differs(String),
    /// It cannot be used as it was asked to: what was configured is wrong, or not allowed.
    #[error("the log cannot take this: {0}")]
    Unfit(String),
    #[error("the log holds what this build cannot read: {0}")]
    Unreadable(String),
}

/// One submission, validated, as it goes into one call.
#[derive(Clone, Debug)]
pub struct Submission {
    pub session_id: Option<String>,
    pub user_id: Option<String>,
    pub submitted: Submitted,
    pub attachments: Vec<Attachment>,
    /// `Idempotency-Key` and the fingerprint of what the client sent.
    pub key: Option<(String, Vec<u8>)>,
    pub terms: Terms,
}

/// What only the log can see to when it accepts a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// How many runs may wait for their first claim. `None`: any number. Those that are accepted at the same moment do not see each other.
    pub queue_limit: Option<u32>,
    /// Only one host can read the checkpoints, so nothing is accepted while workers of more than one live.
    pub one_host: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    pub name: String,
    pub media_type: String,
    pub sha256: String,
    pub body: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    pub run_id: Uuid,
    pub session_id: String,
    /// The session's internal id, which rings name.
    pub session: Uuid,
    pub status: Status,
    /// False when an idempotency key led to a run that was there.
    pub new: bool,
}

/// Refused by rule; nothing is left behind.
#[derive(Debug, Error)]
pub enum Refused {
    #[error("Session not found")]
    SessionNotFound,
    #[error("Job queue is full")]
    QueueFull,
    #[error("workers of several hosts live, and only one can read the checkpoints")]
    ManyHosts,
    #[error("Idempotency-Key belongs to a different submission scope")]
    KeyScope,
    #[error("Idempotency-Key already has different input or options")]
    KeyInput,
    #[error(transparent)]
    Log(#[from] LogError),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CancelAnswer {
    /// The run's session, by its internal id.
    pub session: Uuid,
    pub status: Status,
    pub cancel_requested: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Erased {
    Gone,
    Unknown,
    /// A run of it has not ended.
    Busy,
}

/// Whose things are looked at: `None` sees all, `Some(user)` only that user's (of `None`: nobody's).
pub type Scope<'a> = Option<Option<&'a str>>;

#[async_trait]
pub trait Intake: Send + Sync {
    /// One round trip, one commit: the run is accepted when this returns.
    async fn submit(&self, submission: Submission) -> Result<Accepted, Refused>;
    /// Whether a submission could be accepted at all, whatever it is.
    async fn fit(&self, terms: Terms) -> Result<(), Refused>;
    /// Puts the wish into the log, and the end too where nothing can be running. `None`: no such run of that agent.
    async fn cancel(&self, agent_id: &str, run_id: Uuid, scope: Scope<'_>) -> Result<Option<CancelAnswer>, LogError>;
    async fn erase(&self, session_id: &str, scope: Scope<'_>) -> Result<Erased, LogError>;
}

#[derive(Clone, Debug, PartialEq)]
pub struct WaitingFor {
    pub host: String,
    /// Milliseconds since the epoch.
    pub since: i64,
}

/// A run as it is read: the projection, its first event, and its last one once it has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRow {
    pub run_id: Uuid,
    pub session_id: String,
    pub agent_id: String,
    pub user_id: Option<String>,
    pub status: Status,
    pub attempt: u32,
    pub cancel_requested: bool,
    pub created_at: i64,
    pub started_at: Option<i64>,
    pub ended_at: Option<i64>,
    pub submitted: Submitted,
    pub terminal: Option<Event>,
    /// The run of the session that is before this one and has not ended.
    pub waiting_on: Option<Uuid>,
    pub waiting_for: Option<WaitingFor>,
}

#[derive(Clone, Debug, Default)]
pub struct RunsQuery<'a> {
    pub agent_id: Option<&'a str>,
    pub session_id: Option<&'a str>,
    pub user_id: Option<&'a str>,
    pub status: Option<Status>,
    /// As a page before gave it.
    pub cursor: Option<Cursor>,
    pub limit: u32,
}

/// Where a page ended. Runs of a session are in the order of acceptance, which is the order of their ids within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor(pub Uuid);

#[derive(Clone, Debug)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// Where the next page starts; `None` when this is the last.
    pub next: Option<Cursor>,
}
pub type RunPage = Page<RunRow>;

/// A page of runs ends early rather than hold more bytes of events than this; one run is always on it.
pub const PAGE_BYTES: i64 = 8 * 1024 * 1024;

#[derive(Clone, Debug, PartialEq)]
pub struct SessionRow {
    pub session_id: String,
    /// Its internal id, by which its folders and checkpoints are named.
    pub session: Uuid,
    pub agent_id: String,
    pub user_id: Option<String>,
    pub created_at: i64,
    pub updated_at: i64,
    pub runs: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The version of the schema.
    pub schema: u32,
    /// Whose log it is: random, made with the schema.
    pub deployment: Uuid,
}

/// How many runs have not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unended {
    pub pending: u64,
    pub running: u64,
    /// Since the oldest of those that wait was accepted; 0 where none waits.
    pub oldest_ms: u64,
}

#[async_trait]
pub trait Reader: Send + Sync {
    async fn run(&self, agent_id: &str, run_id: Uuid, scope: Scope<'_>) -> Result<Option<RunRow>, LogError>;
    /// Newest first.
    async fn runs(&self, query: RunsQuery<'_>, scope: Scope<'_>) -> Result<RunPage, LogError>;
    async fn session(&self, session_id: &str, scope: Scope<'_>) -> Result<Option<SessionRow>, LogError>;
    /// Newest first, of one user where one is named, of one agent where one is named.
    async fn sessions(
        &self,
        user_id: Option<&str>,
        agent_id: Option<&str>,
        cursor: Option<Cursor>,
        limit: u32,
        scope: Scope<'_>,
    ) -> Result<Page<SessionRow>, LogError>;
    /// The events that have frames from `index` on, in order: whole events, at most `limit` of them. The first may begin before `index`.
    async fn frames(&self, run_id: Uuid, index: u32, limit: u32) -> Result<Vec<Recorded>, LogError>;
    /// One query for many runs: of each, the events with frames from the given index on, at most `limit` events in all.
    async fn tail(&self, from: &[(Uuid, u32)], limit: u32) -> Result<Vec<(Uuid, Recorded)>, LogError>;
    async fn health(&self) -> Result<Health, LogError>;
    async fn unended(&self) -> Result<Unended, LogError>;
}

/// A worker as the log knows it: what it can drive, and how long its word holds.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    pub worker: String,
    /// Kinds of sandboxes it can make, each with the host where it makes them: `(kind, host)`.
    pub hosts: Vec<(String, String)>,
    pub lease_ms: u64,
    /// How long a runner outlives its last visit: a host that is silent for longer than this and a lease holds nothing alive.
    pub dead_man_ms: u64,
    /// Only this session, after the end of a run of it; else any.
    pub session: Option<Uuid>,
}

/// What a claim gives: the session and the run to drive, fenced by `epoch`.
#[derive(Clone, Debug)]
pub struct Claim {
    pub session: Uuid,
    pub session_id: String,
    pub run_id: Uuid,
    pub claim: Uuid,
    pub epoch: u64,
    pub host: String,
    /// The workspace as of the end of the last turn.
    pub checkpoint: Option<String>,
    /// What the harness calls the conversation that is in it.
    pub conversation: Option<String>,
    /// The sandbox that the binding names on this host.
    pub sandbox: Option<String>,
    /// Claims in a row, before this one, whose holders neither appended nor renewed.
    pub idle_claims: u32,
}

/// A session that a worker could claim now, and what its turn would need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    pub session: Uuid,
    pub run_id: Uuid,
    /// The turn's time limit, in milliseconds.
    pub time_limit_ms: u64,
    /// How long ago it was first claimed, where it has a sandbox.
    pub running_ms: Option<u64>,
}

/// What a binding is told when the log says where a sandbox is, or is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// From `sandbox.requested` on.
    At { host: String, sandbox: String, attempt: u32 },
    /// After `attempt.failed`.
    Nowhere { retry_at: i64 },
}

#[derive(Debug, Error)]
pub enum AppendError {
    /// The seq is taken: fold the tail and decide again. It may be one's own lost answer.
    #[error("seq {0} is taken")]
    Taken(u32),
    /// The run is gone: its session was erased.
    #[error("the run is gone")]
    Gone,
    #[error(transparent)]
    Log(#[from] LogError),
}

/// The end of a turn: all of it in one call.
#[derive(Clone, Debug)]
pub struct Finish {
    pub run_id: Uuid,
    pub session: Uuid,
    pub claim: Uuid,
    /// The first seq that is taken, and the first index.
    pub seq: u32,
    pub first_index: u32,
    pub events: Vec<Event>,
    /// The new checkpoint, where one was saved.
    pub checkpoint: Option<String>,
    /// And the conversation in it.
    pub conversation: Option<String>,
}

/// A run that a worker holds, for its heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    pub session: Uuid,
    pub claim: Uuid,
}

/// What a heartbeat says of a holding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    pub claim: Uuid,
    pub cancel_requested: bool,
}

/// A host as the heartbeat shows it to the others.
#[derive(Clone, Debug)]
pub struct HostSeen {
    pub host: String,
    pub kind: String,
    /// For people: the machine's name.
    pub label: String,
}

#[async_trait]
pub trait Driver: Send + Sync {
    /// Appends `run.claimed` and gives the session's first run that has not ended. `None`: nothing to do for this worker.
    async fn claim(&self, request: &ClaimRequest) -> Result<Option<Claim>, LogError>;
    /// What [`Driver::claim`] could take for this worker now, by session after `after`, at most `limit` of it. Takes nothing.
    async fn ready(&self, request: &ClaimRequest, after: Option<Uuid>, limit: u32) -> Result<Vec<Ready>, LogError>;
    /// The events of a run from `seq` on, all of them, in order; at most `limit`.
    async fn events(&self, run_id: Uuid, seq: u32, limit: u32) -> Result<Vec<Recorded>, LogError>;
    /// The seq and the index after the last event, of a log that may have events which cannot be read.
    async fn tip(&self, run_id: Uuid) -> Result<Option<(u32, u32)>, LogError>;
    async fn attachments(&self, run_id: Uuid) -> Result<Vec<Attachment>, LogError>;
    /// Appends at `seq`, one past what the decision saw.
    async fn append(&self, run_id: Uuid, seq: u32, first_index: u32, event: &Event) -> Result<i64, AppendError>;
    /// The same, with what the binding is told.
    async fn place(&self, run_id: Uuid, seq: u32, first_index: u32, event: &Event, holding: Holding, place: &Place) -> Result<i64, AppendError>;
    async fn finish(&self, finish: Finish) -> Result<(), AppendError>;
    /// Appends `handed_over` and frees the lease, for the next worker to go on at once.
    async fn hand_over(&self, run_id: Uuid, seq: u32, first_index: u32, reason: &str, holding: Holding) -> Result<(), AppendError>;
    /// Renews the leases that are still held, and the hosts' rows. Answers for those only: a holding without an answer is lost.
    async fn heartbeat(&self, holdings: &[Holding], hosts: &[HostSeen], lease_ms: u64) -> Result<Vec<Notice>, LogError>;
    /// Of these runs, those that have ended or are gone: what stands in their names may be removed.
    async fn ended(&self, runs: &[Uuid]) -> Result<Vec<Uuid>, LogError>;
    /// Sessions that were erased and that this host may still have things of; `forget` says that they are removed.
    async fn erasures(&self, host: &str) -> Result<Vec<Uuid>, LogError>;
    async fn forget(&self, session: Uuid, host: &str) -> Result<(), LogError>;
    /// The log's own upkeep: partitions ahead, events of no run.
    async fn upkeep(&self) -> Result<(), LogError>;
}

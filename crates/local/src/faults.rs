//! Why `sandlog` does not start, or stops: each a paragraph that says what to do.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use adapters::config::Faults;
use api::config::AgentsError;

use crate::client::ClientError;
use crate::postgres::PostgresError;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error(transparent)]
    Config(#[from] Faults),
    #[error(transparent)]
    Agents(#[from] AgentsError),
    #[error("agent `{agent}` asks a model of Anthropic's API, and ANTHROPIC_API_KEY is not set. Put it into the environment, or into .env")]
    NoKey { agent: String },
    #[error("cannot listen on {address}: {cause}. Is another sandlog running? SANDLOG_PORT chooses another port")]
    Port { address: SocketAddr, cause: io::Error },
    #[error(transparent)]
    Metrics(io::Error),
    #[error("the data folder {} cannot be used: {cause}. SANDLOG_DATA_DIR names it", .folder.display())]
    Data { folder: PathBuf, cause: io::Error },
    #[error(
        "another sandlog{at} has the embedded stack of {}. Stop it, use it (sandlog run, sandlog submit), choose another SANDLOG_DATA_DIR, or give \
         DATABASE_URL for both to share", .folder.display()
    )]
    Taken { folder: PathBuf, at: String },
    #[error(transparent)]
    Postgres(#[from] PostgresError),
    #[error("the Postgres at {place} cannot be used: {cause}")]
    Log { place: String, cause: String },
    #[error("signals cannot be carried: {0}")]
    Signals(String),
    #[error("sandboxes cannot be made here: {0}")]
    Sandboxes(String),
    #[error("requests cannot be authenticated: {0}")]
    Auth(#[source] io::Error),
    #[error("{}", .0.join("\n  "))]
    Key(Vec<String>),
    #[error("{what} ended: {cause}")]
    Ended { what: &'static str, cause: String },
    #[error(transparent)]
    Client(#[from] ClientError),
}

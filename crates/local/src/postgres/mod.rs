//! The embedded stack's own Postgres, in DATA/postgres.
//!
//! Law: never two servers on one folder, and never one that outlives `sandlog`. The caller holds the data folder's lock; a server that a killed
//! `sandlog` left is stopped before a new one starts; and the server is told to stop by the kernel when the thread that made it ends.
//!
//!     DATA/postgres/data        the cluster, of the account that the server runs as
//!     DATA/postgres/passwords   0600, of ours: one password for each of the two roles
//!     DATA/postgres/log         what the server said since its last start (log.old: the start before)

mod account;
mod binaries;
mod cluster;
mod keeper;
mod launch;
mod leftover;
#[cfg(test)]
mod tests;

use std::io;
use std::path::PathBuf;

pub(crate) use keeper::Embedded;

/// The role that owns the schema and migrates it.
pub(crate) const OWNER: &str = "sandlog_owner";
/// The role of api and worker.
pub(crate) const FUNCTIONS: &str = "sandlog";
/// The one database.
pub(crate) const DATABASE: &str = "sandlog";

#[derive(Debug, thiserror::Error)]
pub(crate) enum PostgresError {
    #[error(
        "no Postgres server programs (initdb, postgres) were found in {looked}. Install them (Debian and Ubuntu: apt-get install postgresql; \
         Fedora: dnf install postgresql-server; macOS: brew install postgresql), name their folder in SANDLOG_POSTGRES_BIN, or give DATABASE_URL"
    )]
    NoServer { looked: String },
    #[error(
        "{folder} was made by Postgres {made}, and no server of that version is installed (found: {found}). Install Postgres {made}, or move the \
         folder away to start with an empty log"
    )]
    OtherVersion { folder: PathBuf, made: String, found: String },
    #[error(
        "{folder} is below a folder that the account of the Postgres server (uid {uid}) cannot enter, and this process may not make a mount \
         namespace to show it: {cause}. Use a SANDLOG_DATA_DIR that it can enter, or give DATABASE_URL"
    )]
    Unreachable { folder: PathBuf, uid: u32, cause: String },
    #[error("{file} is missing beside its cluster. Put it back, or move {} away to start with an empty log", .folder.display())]
    NoPasswords { file: PathBuf, folder: PathBuf },
    #[error("a Postgres server of an earlier sandlog (pid {pid}) still runs on {} and does not stop", .folder.display())]
    Leftover { pid: i32, folder: PathBuf },
    #[error("{program} failed ({status}):\n{said}")]
    Failed { program: &'static str, status: String, said: String },
    #[error("{what} {}: {cause}", .path.display())]
    Io {
        what: &'static str,
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("starting Postgres was given up")]
    GivenUp,
}

/// Names the path and the attempt in an I/O error.
fn at(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> PostgresError {
    let path = path.into();
    move |cause| PostgresError::Io { what, path, cause }
}

//! The command line.

use clap::{Parser, Subcommand, ValueEnum};

/// Runs sandboxed coding agents behind an HTTP API, on one machine.
#[derive(Debug, Parser)]
#[command(name = "sandlog", version, about, after_help = "Configuration is by environment: see .env.sample.")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve: HTTP API and worker, with a Postgres of their own unless DATABASE_URL names one
    Up {
        /// Start one role only, as one instance of a deployment (needs DATABASE_URL)
        #[arg(long)]
        only: Option<Role>,
    },
    /// Run one message in this folder's stack, starting the stack where none serves
    Run {
        #[arg(default_value = "demo")]
        agent: String,
        message: Vec<String>,
        /// Continue this session instead of starting one
        #[arg(long)]
        session: Option<String>,
    },
    /// Make a key for SANDLOG_AUTH=key: what the file of keys says of it on standard output, and the key itself, once, on standard error
    Key {
        /// What the key is called, and whose it is unless --user says so
        name: String,
        /// What it allows: agents:read, agents:run, agents:AGENT:run, sessions:read, sessions:delete, metrics:read, agent_os:admin
        #[arg(long, required = true)]
        scope: Vec<String>,
        /// The user that it speaks for
        #[arg(long)]
        user: Option<String>,
    },
    #[command(flatten)]
    Ask(Ask),
}

/// Requests to the server at SANDLOG_URL.
#[derive(Debug, Subcommand)]
pub(crate) enum Ask {
    /// Submit a message to the server at SANDLOG_URL and follow its run
    Submit {
        agent: String,
        #[arg(required = true)]
        message: Vec<String>,
        /// Continue this session instead of starting one
        #[arg(long)]
        session: Option<String>,
        /// Print the run's id and return at once
        #[arg(long)]
        background: bool,
    },
    /// Follow a run of the server at SANDLOG_URL to its end
    Follow { agent: String, run_id: String },
    /// Cancel a run of the server at SANDLOG_URL
    Cancel { agent: String, run_id: String },
    /// List the runs of a session of the server at SANDLOG_URL
    Runs { agent: String, session_id: String },
}

/// The half of the stack that a process plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Role {
    Api,
    Worker,
}

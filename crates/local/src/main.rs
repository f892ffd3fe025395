//! `sandlog`: everything on one machine in one process, and the command line client.
//!
//! `up` serves, `run` runs one message, and the rest are clients of a server. What stands behind the ports is named in `wiring` alone.
//!
//! Law: whatever way a process ends, nothing that it started outlives it, but for the sandboxes of `up --only worker`.

mod beacon;
mod cli;
mod client;
mod commands;
mod config;
mod faults;
mod key;
mod postgres;
mod random;
mod run;
mod signals;
mod stack;
mod up;
mod wiring;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::Cli;

#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    match commands::execute(cli.command).await {
        Ok(code) => code,
        Err(fault) => {
            eprintln!("sandlog: {fault}");
            ExitCode::FAILURE
        }
    }
}

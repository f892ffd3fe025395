//! The runner's program. `run FOLDER` is for the worker, `exec` for bubblewrap.
//!
//! `run` forks the daemon, which supervises; that forks the guard, which outlives it for a moment, and the stage, which becomes bubblewrap; inside the
//! sandbox `exec` becomes the harness.

mod daemon;
mod fds;
mod fork;
mod guard;
mod harness;
mod launch;
mod outside;
mod plan;
mod stage;

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    let text = |at: usize| args.get(at).and_then(|arg| arg.to_str());
    let done = match (text(0), args.get(1)) {
        (Some("run"), Some(folder)) => launch::run(folder.as_ref()),
        (Some("exec"), Some(_)) => harness::main(text(1).unwrap_or_default(), &args[2..]),
        (Some("--version"), None) => {
            println!("sandlog-runner {}", env!("CARGO_PKG_VERSION"));
            Ok(())
        }
        _ => Err(std::io::Error::other("usage: sandlog-runner run FOLDER")),
    };
    ended(done)
}

/// How a process ends, its parent's forks too.
fn ended(done: std::io::Result<()>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

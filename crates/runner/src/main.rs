//! The runner's program. `run FOLDER` is for the worker; the others are stages that it starts of itself: `daemon` supervises, `guard` outlives it for a moment, `stage` becomes bubblewrap,
//! `exec` runs inside the sandbox and becomes the harness.

mod daemon;
mod fds;
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
        (Some("daemon"), Some(folder)) => daemon::main(folder.as_ref(), text(2)),
        (Some("guard"), Some(folder)) => guard::main(folder.as_ref()),
        (Some("stage"), Some(_)) => stage::main(text(1).unwrap_or_default()),
        (Some("exec"), Some(_)) => harness::main(text(1).unwrap_or_default(), &args[2..]),
        (Some("--version"), None) => {
            println!("sandlog-runner {}", env!("CARGO_PKG_VERSION"));
            Ok(())
        }
        _ => Err(std::io::Error::other("usage: sandlog-runner run FOLDER")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

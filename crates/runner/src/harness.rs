//! `exec`: the sandbox's first process. It waits until the runner has written it down, then starts the harness as its child, and ends as that ends: with it
//! ends all that is left inside. The pipe that closes as the child becomes the harness tells that it worked.
//!
//! What it holds is the runner's: the lock that says that the sandbox lives. The harness has the same user, so this process is one that nobody but root on
//! the host may trace, which also guards its memory and its descriptors. Bubblewrap's own first process would not be: each exec undoes it.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{DumpableBehavior, Pid, Resource, Rlimit, Signal, WaitOptions};

use crate::fork::{self, Side, fork};
use crate::plan::Inside;
use crate::{fds, outside};

pub(crate) fn main(inside: &str, args: &[OsString]) -> io::Result<()> {
    let inside: Inside = serde_json::from_str(inside)?;
    drop(fds::take(inside.exe));
    let alive = fds::take(inside.alive);
    let err = fds::take(inside.err);
    let mut go = File::from(fds::take(inside.go));
    let mut status = File::from(fds::take(inside.status));
    fds::drop_at_exec(&alive)?;
    fds::drop_at_exec(&go)?;
    fds::drop_at_exec(&status)?;
    if let Some(number) = inside.outside {
        outside::open(fds::take(number))?;
    }

    // Bubblewrap has asked for it too, before it became this program.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    status.write_all(b"h")?;
    go.read_exact(&mut [0])?;
    match fork()? {
        Side::Child => fork::end(become_harness(status, &err, inside.processes, args)),
        Side::Parent(harness) => {
            drop((status, go, err));
            let code = reap(harness)?;
            // Until the very end: the lock tells that something runs.
            drop(alive);
            std::process::exit(code)
        }
    }
}

fn become_harness(mut status: File, err: &OwnedFd, processes: Option<u64>, args: &[OsString]) -> io::Result<()> {
    rustix::stdio::dup2_stderr(err)?;
    fds::drop_at_exec(err)?;
    if let Some(processes) = processes {
        let limit = Rlimit { current: Some(processes), maximum: Some(processes) };
        rustix::process::setrlimit(Resource::Nproc, limit)?;
    }

    let Some((program, args)) = args.split_first() else {
        return status.write_all(b"no program is given");
    };
    let error = Command::new(program).args(args).exec();
    status.write_all(format!("{}: {}", program.display(), reason(&error)).as_bytes())?;
    std::process::exit(127)
}

/// Takes what ends until the harness has, and says how it ended as a shell does.
fn reap(harness: Pid) -> io::Result<i32> {
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == harness => {
                let signal = status.terminating_signal().map(|signal| 128 + signal);
                return Ok(status.exit_status().or(signal).unwrap_or(1));
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The system's words without the number.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

//! `exec`: inside the sandbox, the last step before the harness. It waits until the runner has written down whom it would have to kill, then becomes the
//! harness. The pipe that closes as it does so tells that it worked.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Resource, Rlimit};

use crate::plan::Inside;
use crate::{fds, outside};

pub(crate) fn main(inside: &str, args: &[OsString]) -> io::Result<()> {
    let inside: Inside = serde_json::from_str(inside)?;
    drop(fds::take(inside.exe));
    let err = fds::take(inside.err);
    let mut go = File::from(fds::take(inside.go));
    let mut status = File::from(fds::take(inside.status));
    fds::drop_at_exec(&go)?;
    fds::drop_at_exec(&status)?;
    if let Some(number) = inside.outside {
        outside::open(fds::take(number))?;
    }

    status.write_all(b"h")?;
    go.read_exact(&mut [0])?;
    rustix::stdio::dup2_stderr(&err)?;
    drop(err);
    if let Some(processes) = inside.processes {
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

/// The system's words without the number.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

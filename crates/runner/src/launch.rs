//! `run FOLDER`: starts the daemon and returns once it holds its lock and listens, so that the daemon is nobody's child.
//!
//! Standard input is the session's fence: whoever creates holds a lock on it, and the daemon holds it on until it is ready, also if that caller dies.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::pipe::PipeFlags;

use crate::fds;

pub(crate) fn run(folder: &Path) -> io::Result<()> {
    fds::drop_others_at_exec()?;
    let folder = folder.canonicalize()?;
    let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    fds::keep(&write)?;
    // This very program, also if the file was replaced meanwhile.
    Command::new("/proc/self/exe")
        .arg0("sandlog-runner")
        .arg("daemon")
        .arg(folder)
        .arg(write.as_raw_fd().to_string())
        .env_clear()
        .current_dir("/")
        .stdout(Stdio::null())
        .spawn()?;
    drop(write);
    // Why it ended otherwise is on standard error.
    File::from(read).read_exact(&mut [0]).map_err(|_| io::Error::other("the runner did not start"))
}

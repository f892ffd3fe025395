//! `run FOLDER`: forks the daemon and returns once that holds its lock and listens, so that the daemon is nobody's child.
//!
//! Standard input is the session's fence: whoever creates holds a lock on it, and the daemon holds it on until it is ready, also if that caller dies.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rustix::pipe::PipeFlags;

use crate::fork::{self, Side, fork};
use crate::{daemon, fds};

pub(crate) fn run(folder: &Path) -> io::Result<()> {
    fds::close_others(&[])?;
    let folder = folder.canonicalize()?;
    rustix::process::chdir("/")?;
    let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    if let Side::Child = fork()? {
        drop(read);
        fork::end(daemon::main(&folder, File::from(write)));
    }
    drop(write);
    // Why it ended otherwise is on standard error.
    File::from(read).read_exact(&mut [0]).map_err(|_| io::Error::other("the runner did not start"))
}

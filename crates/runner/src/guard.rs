//! The guard waits for the end of its runner, and where that died in the middle of a turn, ends the tree it left.
//!
//! Nearly always there is none: bubblewrap dies with the runner. But killed while it starts, it can leave its inner half waiting for ever, before any harness
//! runs. Whoever looks at the sandbox later ends that too; this is for when nobody looks.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Duration;

use runner::tree::Tree;
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, WaitOptions};

use crate::fds;
use crate::fork::{self, Side, fork};

const LIMIT: Duration = Duration::from_secs(60);

/// The guard itself. A first byte says that the folder is its runner's, which before could be another's; a second one that the turn is over. The end of the
/// pipe: the runner is dead.
fn watch(folder: &Path, mut from: File) -> io::Result<()> {
    rustix::thread::set_name(c"sandlog-guard")?;
    fds::let_go()?;
    fds::complain_to(&folder.join("log"))?;
    if from.read(&mut [0])? == 0 || from.read(&mut [0])? > 0 || Tree::read(folder)?.end(LIMIT) {
        return Ok(());
    }
    Err(io::Error::other("a dead runner's tree does not end"))
}

/// The runner's hold on its guard.
pub(crate) struct Guard {
    guard: Pid,
    /// Only this process has it.
    life: File,
}

impl Guard {
    /// Before the runner has its lock or its door, which the guard would have too. `ready` comes back.
    pub(crate) fn start(folder: &Path, ready: File) -> io::Result<(Self, File)> {
        let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        match fork()? {
            Side::Child => {
                drop((write, ready));
                fork::end(watch(folder, File::from(read)))
            }
            Side::Parent(guard) => Ok((Self { guard, life: File::from(write) }, ready)),
        }
    }

    /// From now on a death is to be followed.
    pub(crate) fn watch(&mut self) -> io::Result<()> {
        self.life.write_all(b"w")
    }

    /// The turn is over and its tree gone.
    pub(crate) fn dismiss(mut self) {
        // One that was killed needs no word. Reaped it may be already, with the other children.
        let _ = self.life.write_all(b"q");
        let _ = rustix::process::waitpid(Some(self.guard), WaitOptions::empty());
    }
}

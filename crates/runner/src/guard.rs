//! `guard FOLDER`: waits for the end of its runner, and where that died in the middle of a turn, ends the tree it left.
//!
//! Nearly always there is none: bubblewrap dies with the runner. But killed while it starts, it can leave its inner half waiting for ever, before any harness
//! runs. Whoever looks at the sandbox later ends that too; this is for when nobody looks.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use runner::tree::Tree;
use rustix::pipe::PipeFlags;

const LIMIT: Duration = Duration::from_secs(60);

/// The guard itself. On its standard input comes a byte when the turn is over, or the end when the runner is dead.
pub(crate) fn main(folder: &Path) -> io::Result<()> {
    if io::stdin().read(&mut [0])? > 0 || Tree::read(folder)?.end(LIMIT) {
        return Ok(());
    }
    Err(io::Error::other("a dead runner's tree does not end"))
}

/// The runner's hold on its guard.
pub(crate) struct Guard {
    guard: Child,
    /// Only this process has it.
    life: File,
}

impl Guard {
    pub(crate) fn start(folder: &Path) -> io::Result<Self> {
        let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let guard = Command::new("/proc/self/exe")
            .arg0("sandlog-runner")
            .arg("guard")
            .arg(folder)
            .env_clear()
            .current_dir("/")
            .stdin(read)
            .stdout(Stdio::null())
            .spawn()?;
        Ok(Self { guard, life: File::from(write) })
    }

    /// The turn is over and its tree gone.
    pub(crate) fn dismiss(mut self) {
        // One that was killed needs no word. Reaped it may be already, with the other children.
        let _ = self.life.write_all(b"q");
        let _ = self.guard.wait();
    }
}

//! Stopping a sandbox: by its runner, and where that does not answer, past it.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use runner::door::Order;
use runner::procfs::{self, Process};
use rustix::process::Signal;

use super::folder::{Folder, Stands, TREE_LIMIT};
use super::{Inner, SandboxError};

/// Beyond it a runner is taken for silent.
const LONGEST_GRACE: Duration = Duration::from_secs(3600);

impl Inner {
    pub(super) fn stop(&self, folder: &Folder, epoch: u64, reason: &str, grace: Duration) -> Result<(), SandboxError> {
        if !folder.session.exists() {
            return Ok(());
        }
        let fence = folder.fence(epoch)?;
        let visit = self.visit(folder, epoch);
        drop(fence);
        match visit {
            Ok(Ok(visit)) if visit.welcome.ended => Ok(()),
            Ok(Ok(mut visit)) => {
                let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
                // A runner that is just ending does not hear it, which is seen below.
                let _ = visit.order(&Order::Kill { reason: reason.to_owned(), grace_ms });
                drop(visit);
                self.wait_for_end(folder, epoch, grace)
            }
            Ok(Err(Stands::Nothing | Stands::HalfMade)) => Ok(()),
            Ok(Err(_)) => folder.end_tree(),
            Err(SandboxError::Unreachable(_)) => folder.end_silent(),
            Err(other) => Err(other),
        }
    }

    /// The runner's exit record is the proof; without it the tree is ended from here.
    fn wait_for_end(&self, folder: &Folder, epoch: u64, grace: Duration) -> Result<(), SandboxError> {
        let until = Instant::now() + grace.min(LONGEST_GRACE) + TREE_LIMIT;
        let mut wait = Duration::from_millis(2);
        while Instant::now() < until {
            match self.visit(folder, epoch) {
                Ok(Ok(visit)) if visit.welcome.ended => return Ok(()),
                Ok(Ok(_)) => {}
                Ok(Err(_)) => return folder.end_tree(),
                Err(SandboxError::Unreachable(_)) => break,
                Err(other) => return Err(other),
            }
            std::thread::sleep(wait);
            wait = (wait * 2).min(Duration::from_millis(50));
        }
        folder.end_silent()
    }

    /// Of a sandbox that has ended or never stood, under the fence. False: it has to be stopped before.
    pub(super) fn dismiss_ended(&self, folder: &Folder, epoch: u64) -> Result<bool, SandboxError> {
        match self.visit(folder, epoch) {
            Ok(Ok(mut visit)) if visit.welcome.ended => drop(visit.order(&Order::Dismiss)),
            Ok(Err(Stands::Nothing | Stands::HalfMade)) => return Ok(true),
            _ => return Ok(false),
        }
        folder.lock_is_free_within(TREE_LIMIT)
    }

    /// Tells the runner to end and waits until its lock is free.
    pub(super) fn dismiss(&self, folder: &Folder, epoch: u64) -> Result<(), SandboxError> {
        match self.visit(folder, epoch) {
            // One that is ending anyway need not hear it.
            Ok(Ok(mut visit)) => drop(visit.order(&Order::Dismiss)),
            Ok(Err(_)) => return Ok(()),
            Err(SandboxError::Unreachable(_)) => return folder.end_silent(),
            Err(other) => return Err(other),
        }
        if folder.lock_is_free_within(TREE_LIMIT)? { Ok(()) } else { folder.end_silent() }
    }
}

impl Folder {
    fn lock_is_free_within(&self, limit: Duration) -> Result<bool, SandboxError> {
        let until = Instant::now() + limit;
        let mut wait = Duration::from_micros(300);
        while Instant::now() < until {
            if !matches!(self.stands()?, Stands::Runner) {
                return Ok(true);
            }
            std::thread::sleep(wait);
            wait = (wait * 2).min(Duration::from_millis(3));
        }
        Ok(false)
    }

    /// For a runner that holds its lock and says nothing: nobody could ever go on with it, so it ends, and then its tree.
    fn end_silent(&self) -> Result<(), SandboxError> {
        self.runners().iter().for_each(|runner| runner.signal(Signal::KILL));
        if !self.lock_is_free_within(TREE_LIMIT)? {
            return Err(SandboxError::Unreachable("the runner does not end".into()));
        }
        self.end_tree()
    }

    /// Runners of this folder: by what they were started with, and by their hold on its lock.
    fn runners(&self) -> Vec<Process> {
        let Ok(lock) = fs::metadata(self.path.join("lock")) else { return Vec::new() };
        // The release before starts `daemon`.
        let started = ["run", "daemon"].map(|word| [b"sandlog-runner\0", word.as_bytes(), b"\0", self.path.as_os_str().as_bytes(), b"\0"].concat());
        let is_runner = |process: &Process| {
            let open = |fd: fs::DirEntry| fs::metadata(fd.path()).is_ok_and(|open| (open.dev(), open.ino()) == (lock.dev(), lock.ino()));
            fs::read(format!("/proc/{}/cmdline", process.pid)).is_ok_and(|line| started.iter().any(|started| line.starts_with(started)))
                && fs::read_dir(format!("/proc/{}/fd", process.pid)).is_ok_and(|fds| fds.flatten().any(open))
        };
        procfs::all().filter_map(Process::of).filter(is_runner).collect()
    }
}

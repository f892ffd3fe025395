//! Stopping a sandbox: by its runner, and where that does not answer, past it.

use std::time::{Duration, Instant};

use runner::door::Order;

use super::folder::{Folder, Stands, TREE_LIMIT};
use super::{Inner, SandboxError};

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
            // It holds its lock and says nothing: its tree can be ended without it.
            Err(SandboxError::Unreachable(_)) => folder.end_tree(),
            Err(other) => Err(other),
        }
    }

    /// The runner's exit record is the proof; without it the tree is ended from here.
    fn wait_for_end(&self, folder: &Folder, epoch: u64, grace: Duration) -> Result<(), SandboxError> {
        let until = Instant::now() + grace + TREE_LIMIT;
        let mut wait = Duration::from_millis(2);
        while Instant::now() < until {
            match self.visit(folder, epoch) {
                Ok(Ok(visit)) if visit.welcome.ended => return Ok(()),
                Ok(Ok(_)) => {}
                Ok(Err(_)) | Err(SandboxError::Unreachable(_)) => break,
                Err(other) => return Err(other),
            }
            std::thread::sleep(wait);
            wait = (wait * 2).min(Duration::from_millis(50));
        }
        folder.end_tree()
    }

    /// Tells the runner to end and waits until its lock is free.
    pub(super) fn dismiss(&self, folder: &Folder, epoch: u64) -> Result<(), SandboxError> {
        match self.visit(folder, epoch)? {
            // One that is ending anyway need not hear it.
            Ok(mut visit) => drop(visit.order(&Order::Dismiss)),
            Err(_) => return Ok(()),
        }
        let until = Instant::now() + TREE_LIMIT;
        while Instant::now() < until {
            if !matches!(folder.stands()?, Stands::Runner) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(3));
        }
        Err(SandboxError::Unreachable("the runner does not end".into()))
    }
}

//! A session's fence: the highest epoch that looked or created here, and the lock under which it is raised.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;

use crate::sandbox::SandboxError;

const FILE: &str = "fence";
/// Nobody holds it for longer than a runner takes to start or a tree to end.
const LIMIT: Duration = Duration::from_secs(45);

/// The fence, held. A runner that is being started shares the hold, so that it also lasts when its starter dies.
#[derive(Debug)]
pub(super) struct Fence {
    file: File,
}

impl Fence {
    /// Takes the lock in a session's folder, and raises the fence to `epoch`, on disk; refuses where it is higher.
    pub(super) fn raise(session: &Path, epoch: u64) -> Result<Self, SandboxError> {
        let failed = || SandboxError::io(format!("{}/{FILE}", session.display()));
        let fence = Self::take(session)?;
        let stands = fence.read().map_err(failed())?;
        if stands > epoch {
            return Err(SandboxError::Fenced { epoch: stands });
        }
        if stands < epoch {
            fence.write(epoch).map_err(failed())?;
        }
        Ok(fence)
    }

    /// The epoch that stands.
    pub(super) fn stands(session: &Path) -> Result<u64, SandboxError> {
        Self::take(session)?.read().map_err(SandboxError::io(format!("{}/{FILE}", session.display())))
    }

    /// For the runner that is started under it.
    pub(super) fn share(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    fn take(session: &Path) -> Result<Self, SandboxError> {
        let path = session.join(FILE);
        let failed = || SandboxError::io(path.display().to_string());
        let until = Instant::now() + LIMIT;
        loop {
            std::fs::create_dir_all(session).map_err(failed())?;
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false).mode(0o600);
            let file = match options.open(&path) {
                // The session was erased between the two.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                other => other.map_err(failed())?,
            };
            while let Err(error) = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                if !matches!(error, rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) {
                    return Err(failed()(error.into()));
                }
                if Instant::now() >= until {
                    return Err(SandboxError::Unreachable("the session's fence is held".into()));
                }
                std::thread::sleep(Duration::from_millis(3));
            }
            if is_at(&file, &path) {
                return Ok(Self { file });
            }
        }
    }

    fn read(&self) -> io::Result<u64> {
        let mut text = String::new();
        (&self.file).read_to_string(&mut text)?;
        match text.trim() {
            "" => Ok(0),
            number => number.parse().map_err(|_| io::Error::other("not a number")),
        }
    }

    /// In place, since the lock is on this file: always the same length, well within what a disk writes whole.
    fn write(&self, epoch: u64) -> io::Result<()> {
        self.file.write_all_at(format!("{epoch:020}\n").as_bytes(), 0)?;
        (&self.file).flush()?;
        self.file.sync_data()
    }
}

/// Whether the path still leads to the file, which may have been erased while its lock was waited for.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::symlink_metadata(path)) {
        (Ok(ours), Ok(there)) => (ours.dev(), ours.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}

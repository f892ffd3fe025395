//! Before the turn: the lock, the files and the door.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

use runner::spec::Spec;
use rustix::fs::FlockOperation;

use super::shared::{Folder, Shared};

/// What the turn needs.
pub(super) struct Ready {
    pub(super) shared: Shared,
    pub(super) listener: UnixListener,
    /// Held as long as the runner lives.
    pub(super) lock: File,
    /// For the journal's writer.
    pub(super) journal: File,
}

pub(super) fn prepare(path: &Path) -> io::Result<Ready> {
    let folder = Folder::open(path.to_owned())?;
    let lock = file().read(true).write(true).create(true).open(path.join("lock"))?;
    rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)
        .map_err(|error| io::Error::other(format!("another runner holds the lock: {error}")))?;
    let spec = Spec::read(path).map_err(at("spec.json"))?;
    if spec.user.is_none() && rustix::process::geteuid().is_root() {
        return Err(io::Error::other("a sandbox cannot run as root: the spec names no user"));
    }
    let epoch = read_epoch(path)?;
    // One turn a folder: a journal that is there is another turn's.
    let journal = file().append(true).create_new(true).open(path.join("journal")).map_err(at("journal"))?;
    let inbox = file().append(true).create_new(true).open(path.join("inbox")).map_err(at("inbox"))?;
    let reader = file().read(true).write(true).open(path.join("journal")).map_err(at("journal"))?;
    // The path can be longer than an address holds.
    let door = format!("/proc/self/fd/{}/door", folder.handle.as_raw_fd());
    let listener = UnixListener::bind(door).map_err(at("door"))?;
    let shared = Shared::new(spec, folder, reader, inbox, epoch)?;
    Ok(Ready { shared, listener, lock, journal })
}

fn file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

fn at(what: &'static str) -> impl FnOnce(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{what}: {error}"))
}

fn read_epoch(folder: &Path) -> io::Result<u64> {
    let text = fs::read_to_string(folder.join("epoch")).map_err(at("epoch"))?;
    text.trim().parse().map_err(|_| io::Error::other("epoch: not a number"))
}

/// Puts a higher epoch on disk.
pub(super) fn write_epoch(folder: &Folder, epoch: u64) -> io::Result<()> {
    let new = folder.path.join("epoch.new");
    let mut temp = file().write(true).create(true).truncate(true).open(&new)?;
    temp.write_all(format!("{epoch}\n").as_bytes())?;
    temp.sync_data()?;
    fs::rename(new, folder.path.join("epoch"))?;
    folder.handle.sync_all()
}

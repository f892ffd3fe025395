//! Removing what stands, also when a hostile program has built it: depth, modes and links do not matter.

use std::collections::VecDeque;
use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags};
use uuid::Uuid;

use super::create::set_aside;
use super::folder::{Folder, names};
use super::{Inner, Place, SandboxError};

/// How deep a tree is walked before what is below is moved up: each level costs a descriptor.
const DEPTH: usize = 64;

impl Inner {
    pub(super) fn remove(&self, folder: &Folder, epoch: u64) -> Result<(), SandboxError> {
        if !folder.session.exists() {
            return Ok(());
        }
        let mut fence = folder.fence(epoch)?;
        if !self.dismiss_ended(folder, epoch)? {
            drop(fence);
            self.stop(folder, epoch, "removed", Duration::ZERO)?;
            self.dismiss(folder, epoch)?;
            fence = folder.fence(epoch)?;
        }
        match set_aside(&folder.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(SandboxError::io(folder.path.display().to_string())(error));
            }
            _ => {}
        }
        drop(fence);
        clear_leftovers(&folder.session);
        Ok(())
    }

    pub(super) fn erase(&self, session: Uuid) -> Result<(), SandboxError> {
        let path = self.root.join(session.to_string());
        let failed = || SandboxError::io(path.display().to_string());
        for name in names(&path).map_err(failed())? {
            // No claim comes after this one.
            self.remove(&self.folder(&Place { session, name })?, u64::MAX)?;
        }
        clear_leftovers(&path);
        match remove_tree(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed()(error)),
            _ => Ok(()),
        }
    }
}

/// Removes what was set aside, and what someone began to make and did not finish. Best effort: it is tried again with each sandbox of the session.
pub(super) fn clear_leftovers(session: &Path) {
    let Ok(entries) = fs::read_dir(session) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let abandoned = || match File::open(entry.path().join("lock")) {
            Ok(lock) => rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared).is_ok(),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        if name.starts_with(".old-") || (name.starts_with(".new-") && abandoned()) {
            let _ = remove_tree(&entry.path());
        }
    }
}

/// Removes a folder and all in it. Nothing runs in there any more, so nothing changes meanwhile; other cleaners may be at it too.
pub(super) fn remove_tree(path: &Path) -> io::Result<()> {
    let root = open(rustix::fs::CWD, path)?;
    let mut moved = VecDeque::new();
    let mut count = 0;
    empty(&root, &root, &mut moved, &mut count, 0)?;
    while let Some(name) = moved.pop_front() {
        empty(&root, &open(&root, name.as_c_str())?, &mut moved, &mut count, 0)?;
        ignore_missing(rustix::fs::unlinkat(&root, &name, AtFlags::REMOVEDIR))?;
    }
    drop(root);
    ignore_missing(rustix::fs::rmdir(path))?;
    Ok(())
}

/// Empties a folder. What is too deep moves to `root` under a fresh name, which goes to `moved`.
fn empty(root: &OwnedFd, folder: &OwnedFd, moved: &mut VecDeque<CString>, count: &mut u64, depth: usize) -> io::Result<()> {
    let entries: Vec<_> = Dir::read_from(folder)?.collect::<Result<_, _>>()?;
    for entry in entries {
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") || moved.iter().any(|moved| moved.as_c_str() == name) {
            continue;
        }
        if !is_folder(folder, name, entry.file_type())? {
            ignore_missing(rustix::fs::unlinkat(folder, name, AtFlags::empty()))?;
            continue;
        }
        if depth < DEPTH {
            let below = match open(folder, name) {
                Err(rustix::io::Errno::NOENT) => continue,
                other => other?,
            };
            empty(root, &below, moved, count, depth + 1)?;
            ignore_missing(rustix::fs::unlinkat(folder, name, AtFlags::REMOVEDIR))?;
        } else {
            *count += 1;
            let fresh = CString::new(format!(".moved-{}-{count}", std::process::id()))?;
            drop(open(folder, name)?);
            rustix::fs::renameat(folder, name, root, &fresh)?;
            moved.push_back(fresh);
        }
    }
    Ok(())
}

fn is_folder(folder: &OwnedFd, name: &CStr, told: FileType) -> io::Result<bool> {
    if told != FileType::Unknown {
        return Ok(told == FileType::Directory);
    }
    let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
}

/// Opens a folder and makes sure that it can be changed: its owner may have taken all rights from it, which binds everyone but root.
fn open(at: impl std::os::fd::AsFd + Copy, name: impl rustix::path::Arg + Copy) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = match rustix::fs::openat(at, name, flags, Mode::empty()) {
        Err(rustix::io::Errno::ACCESS) => {
            rustix::fs::chmodat(at, name, Mode::RWXU, AtFlags::empty())?;
            rustix::fs::openat(at, name, flags, Mode::empty())?
        }
        other => other?,
    };
    // Read without write: it can be opened, not emptied. Another owner's folder is root's to change.
    let _ = rustix::fs::fchmod(&folder, Mode::RWXU);
    Ok(folder)
}

fn ignore_missing(done: rustix::io::Result<()>) -> rustix::io::Result<()> {
    match done {
        Err(rustix::io::Errno::NOENT) => Ok(()),
        other => other,
    }
}

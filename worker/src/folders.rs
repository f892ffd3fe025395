//! Folders below a root, reached by handles: one name at a time, so that no depth is too much for a system call's longest path and no link is followed.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Dir, Mode, OFlags};
use rustix::io::Errno;

/// To be gone through: what is only that, its owner may not even list.
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A root, and the folder below it that was asked for last.
pub(crate) struct Folders {
    root: OwnedFd,
    path: PathBuf,
    here: Option<OwnedFd>,
}

impl Folders {
    pub(crate) fn below(root: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { root: rustix::fs::open(root, flags, Mode::empty())?, path: PathBuf::new(), here: None })
    }

    /// The folder at a path below the root.
    pub(crate) fn at(&mut self, path: &Path) -> io::Result<BorrowedFd<'_>> {
        self.go(path, |folder, name| Ok(rustix::fs::openat(folder, name, FOLDER, Mode::empty())?))
    }

    /// The same; what is not there is made.
    pub(crate) fn make(&mut self, path: &Path) -> io::Result<BorrowedFd<'_>> {
        self.go(path, |folder, name| {
            match rustix::fs::mkdirat(folder, name, Mode::from_raw_mode(0o777)) {
                Err(Errno::EXIST) => {}
                other => other?,
            }
            Ok(rustix::fs::openat(folder, name, FOLDER, Mode::empty())?)
        })
    }

    /// From the folder before, where that is on the way: whole trees are walked downwards mostly.
    fn go(&mut self, path: &Path, open: impl Fn(BorrowedFd<'_>, &OsStr) -> io::Result<OwnedFd>) -> io::Result<BorrowedFd<'_>> {
        let mut at = self.here.take().filter(|_| path.starts_with(&self.path));
        let rest = if at.is_some() { path.strip_prefix(&self.path).map_err(io::Error::other)? } else { path };
        for part in rest.components() {
            let Component::Normal(name) = part else {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "a path that leads out"));
            };
            at = Some(open(at.as_ref().unwrap_or(&self.root).as_fd(), name)?);
        }
        path.clone_into(&mut self.path);
        self.here = at;
        Ok(self.here.as_ref().unwrap_or(&self.root).as_fd())
    }
}

/// The names in a folder.
pub(crate) fn names(folder: impl AsFd) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    // A handle to go through is not one to read from.
    let listed = rustix::fs::openat(folder, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    for entry in Dir::new(listed)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if !matches!(name, b"." | b"..") {
            names.push(OsStr::from_bytes(name).to_owned());
        }
    }
    Ok(names)
}

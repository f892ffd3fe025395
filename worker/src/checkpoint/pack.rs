//! A folder to a stream and back: tar through zstd. The folder is a harness's work, so nothing in it is trusted: links are kept as links and never
//! followed, pipes, sockets and devices are left out, no set-user-id bit comes back, and no path is too long.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags};
use tar::EntryType;

use crate::folders::{Folders, names};

/// Level 1 takes 0.2 s for 50 MB of text; higher ones cost more than they save.
const LEVEL: i32 = 1;

/// The parts of `root`, each a path of a folder in it; one that is not there is left out.
pub(super) fn pack<W: Write>(root: &Path, parts: &[&str], to: W) -> io::Result<W> {
    let mut tar = tar::Builder::new(zstd::Encoder::new(to, LEVEL)?);
    tar.follow_symlinks(false);
    tar.sparse(true);
    let mut packer = Packer { tar, waiting: Vec::new(), linked: HashMap::new() };
    let mut folders = Folders::below(root)?;
    for part in parts.iter().filter(|part| is_folder(root, part)) {
        let (above, name) = split(Path::new(part))?;
        readable(folders.at(above)?, name, &fs::symlink_metadata(root.join(part))?, 0o700)?;
        packer.waiting.push(part.into());
    }
    while let Some(path) = packer.waiting.pop() {
        let folder = folders.at(&path)?;
        for name in names(folder)? {
            packer.entry(folder, &name, &path.join(&name))?;
        }
    }
    packer.tar.into_inner()?.finish()
}

struct Packer<W: Write> {
    tar: tar::Builder<zstd::Encoder<'static, W>>,
    /// Folders that are to be packed.
    waiting: Vec<PathBuf>,
    /// A file of many names is one file: copied for each of them, a workspace within its limit would fill the disk.
    linked: HashMap<(u64, u64), PathBuf>,
}

impl<W: Write> Packer<W> {
    fn entry(&mut self, folder: BorrowedFd<'_>, name: &OsStr, path: &Path) -> io::Result<()> {
        let meta = File::from(rustix::fs::openat(folder, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?).metadata()?;
        let mut header = tar::Header::new_gnu();
        header.set_metadata(&meta);
        let kind = meta.file_type();
        if kind.is_dir() {
            self.tar.append_data(&mut header, path, io::empty())?;
            readable(folder, name, &meta, 0o700)?;
            self.waiting.push(path.to_owned());
        } else if kind.is_symlink() {
            let target = rustix::fs::readlinkat(folder, name, Vec::new())?.into_bytes();
            self.tar.append_link(&mut header, path, PathBuf::from(std::ffi::OsString::from_vec(target)))?;
        } else if let Some(first) = self.linked.get(&(meta.dev(), meta.ino())).filter(|_| kind.is_file()) {
            header.set_entry_type(EntryType::Link);
            header.set_size(0);
            self.tar.append_link(&mut header, path, first)?;
        } else if kind.is_file() {
            if meta.nlink() > 1 {
                self.linked.insert((meta.dev(), meta.ino()), path.to_owned());
            }
            readable(folder, name, &meta, 0o400)?;
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            self.tar.append_file(path, &mut rustix::fs::openat(folder, name, flags, Mode::empty())?.into())?;
        }
        Ok(())
    }
}

fn is_folder(root: &Path, part: &str) -> bool {
    stands(root, part).is_some_and(|meta| meta.is_dir())
}

/// What is at a path below `root`, if all on the way are folders: a link on the way could lead anywhere on this host.
pub(super) fn stands(root: &Path, path: &str) -> Option<Metadata> {
    let mut at = root.to_owned();
    let mut found = None;
    for name in path.split('/') {
        if found.is_some_and(|meta: Metadata| !meta.is_dir()) {
            return None;
        }
        at.push(name);
        found = Some(fs::symlink_metadata(&at).ok()?);
    }
    found
}

/// Its owner may have taken its own right to read it away; as an ordinary user that would end the checkpoint.
fn readable(folder: BorrowedFd<'_>, name: &OsStr, meta: &Metadata, bits: u32) -> io::Result<()> {
    if meta.mode() & bits != bits {
        rustix::fs::chmodat(folder, name, Mode::from_raw_mode(meta.mode() & 0o777 | bits), AtFlags::empty())?;
    }
    Ok(())
}

/// Back into `root`, where the folders stand. What is in none of the parts is refused, and so is a link to a file that is in none.
pub(super) fn unpack(from: impl Read, root: &Path, parts: &[&str]) -> io::Result<()> {
    let mut tar = tar::Archive::new(zstd::Decoder::new(from)?);
    // Permissions without the special bits; who owns what is for the sandbox to say.
    tar.set_preserve_permissions(false);
    tar.set_preserve_ownerships(false);
    tar.set_preserve_mtime(true);
    tar.set_overwrite(true);
    let mut into = Unpacker { folders: Folders::below(root)?, firsts: Folders::below(root)? };
    let mut made = Vec::new();
    for entry in tar.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let kind = entry.header().entry_type();
        let is_ours =
            |path: &Path| parts.iter().any(|part| path.starts_with(part)) && path.components().all(|part| matches!(part, Component::Normal(_)));
        let leads_in = !kind.is_hard_link() || entry.link_name()?.is_some_and(|first| is_ours(&first));
        if !leads_in || !is_ours(&path) {
            return Err(not_of_a_checkpoint(&path));
        }
        if kind.is_dir() {
            into.folders.make(&path)?;
            made.push((path, entry.header().mode()?));
        } else {
            into.put(&mut entry, &path)?;
        }
    }
    // Last, and what is deeper first: it may be one that must not be written to.
    made.sort_by(|(one, _), (other, _)| other.cmp(one));
    made.iter()
        .try_for_each(|(path, mode)| Ok(rustix::fs::chmodat(into.folders.at(path)?, ".", Mode::from_raw_mode(mode & 0o777), AtFlags::empty())?))
}

struct Unpacker {
    folders: Folders,
    /// For the first names of files that have several.
    firsts: Folders,
}

impl Unpacker {
    fn put(&mut self, entry: &mut tar::Entry<'_, impl Read>, path: &Path) -> io::Result<()> {
        let (above, name) = split(path)?;
        let folder = self.folders.make(above)?;
        match entry.header().entry_type() {
            EntryType::Link => {
                let first = entry.link_name()?.ok_or_else(|| not_of_a_checkpoint(path))?.into_owned();
                let (above, first) = split(&first)?;
                Ok(rustix::fs::linkat(self.firsts.at(above)?, first, folder, name, AtFlags::empty())?)
            }
            // The library takes a file whose name ends so for a folder.
            EntryType::Regular | EntryType::GNUSparse | EntryType::Symlink if !entry.path_bytes().ends_with(b"/") => {
                let place = PathBuf::from(format!("/proc/self/fd/{}", folder.as_fd().as_raw_fd()));
                entry.unpack(place.join(name)).map(drop)
            }
            _ => Err(not_of_a_checkpoint(path)),
        }
    }
}

/// The folder of what is at a path, and its name there.
fn split(path: &Path) -> io::Result<(&Path, &OsStr)> {
    path.parent().zip(path.file_name()).ok_or_else(|| not_of_a_checkpoint(path))
}

fn not_of_a_checkpoint(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{} is not of a checkpoint", path.display()))
}

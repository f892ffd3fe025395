//! A folder to a stream and back: tar through zstd. The folder is a harness's work, so nothing in it is trusted: links are kept as links and never
//! followed, pipes, sockets and devices are left out, and no set-user-id bit comes back.

use std::collections::HashMap;
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

/// Level 1 takes 0.2 s for 50 MB of text; higher ones cost more than they save.
const LEVEL: i32 = 1;

/// The parts of `root`, each a path of a folder in it; one that is not there is left out.
pub(super) fn pack<W: Write>(root: &Path, parts: &[&str], to: W) -> io::Result<W> {
    let mut tar = tar::Builder::new(zstd::Encoder::new(to, LEVEL)?);
    tar.follow_symlinks(false);
    tar.sparse(true);
    let mut waiting: Vec<PathBuf> = parts.iter().filter(|part| is_folder(root, part)).map(|part| root.join(part)).collect();
    // A file of many names is one file: copied for each of them, a workspace within its limit would fill the disk.
    let mut linked: HashMap<(u64, u64), PathBuf> = HashMap::new();
    while let Some(at) = waiting.pop() {
        readable(&at, 0o700)?;
        for entry in fs::read_dir(&at)? {
            let path = entry?.path();
            let meta = fs::symlink_metadata(&path)?;
            let name = path.strip_prefix(root).map_err(io::Error::other)?;
            let kind = meta.file_type();
            if kind.is_dir() {
                tar.append_dir(name, &path)?;
                waiting.push(path);
            } else if kind.is_symlink() {
                let mut header = tar::Header::new_gnu();
                header.set_metadata(&meta);
                tar.append_link(&mut header, name, fs::read_link(&path)?)?;
            } else if let Some(first) = linked.get(&(meta.dev(), meta.ino())).filter(|_| kind.is_file()) {
                let mut header = tar::Header::new_gnu();
                header.set_metadata(&meta);
                header.set_entry_type(tar::EntryType::Link);
                header.set_size(0);
                tar.append_link(&mut header, name, first)?;
            } else if kind.is_file() {
                if meta.nlink() > 1 {
                    linked.insert((meta.dev(), meta.ino()), name.to_owned());
                }
                readable(&path, 0o400)?;
                tar.append_file(name, &mut File::open(&path)?)?;
            }
        }
    }
    tar.into_inner()?.finish()
}

fn is_folder(root: &Path, part: &str) -> bool {
    stands(root, part).is_some_and(|meta| meta.is_dir())
}

/// What is at a path below `root`, if all on the way are folders: a link on the way could lead anywhere on this host.
pub(super) fn stands(root: &Path, path: &str) -> Option<fs::Metadata> {
    let mut at = root.to_owned();
    let mut found = None;
    for name in path.split('/') {
        if found.is_some_and(|meta: fs::Metadata| !meta.is_dir()) {
            return None;
        }
        at.push(name);
        found = Some(fs::symlink_metadata(&at).ok()?);
    }
    found
}

/// Its owner may have taken its own right to read it away; as an ordinary user that would end the checkpoint.
fn readable(path: &Path, bits: u32) -> io::Result<()> {
    let mode = fs::symlink_metadata(path)?.mode();
    if mode & bits == bits { Ok(()) } else { fs::set_permissions(path, Permissions::from_mode(mode & 0o777 | bits)) }
}

/// Back into `root`, where the folders stand. What is in none of the parts is refused, and so is a link to a file that is in none.
pub(super) fn unpack(from: impl Read, root: &Path, parts: &[&str]) -> io::Result<()> {
    let mut tar = tar::Archive::new(zstd::Decoder::new(from)?);
    // Permissions without the special bits; who owns what is for the sandbox to say.
    tar.set_preserve_permissions(false);
    tar.set_preserve_ownerships(false);
    tar.set_preserve_mtime(true);
    tar.set_overwrite(true);
    let mut folders = Vec::new();
    for entry in tar.entries()? {
        let mut entry = entry?;
        let name = entry.path()?.into_owned();
        let kind = entry.header().entry_type();
        let is_ours =
            |path: &Path| parts.iter().any(|part| path.starts_with(part)) && path.components().all(|part| matches!(part, Component::Normal(_)));
        let leads_in = !kind.is_hard_link() || entry.link_name()?.is_some_and(|first| is_ours(&first));
        if !leads_in || !parts.iter().any(|part| name.starts_with(part)) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{} is not of a checkpoint", name.display())));
        }
        // A folder comes after what is in it: it may be one that must not be written to.
        if kind.is_dir() { folders.push((name, entry)) } else { put(&mut entry, root)? }
    }
    folders.sort_by(|(one, _), (other, _)| other.cmp(one));
    folders.into_iter().try_for_each(|(_, mut folder)| put(&mut folder, root))
}

fn put(entry: &mut tar::Entry<'_, impl Read>, root: &Path) -> io::Result<()> {
    // False where the name leads out of the root.
    if entry.unpack_in(root)? { Ok(()) } else { Err(io::Error::new(io::ErrorKind::InvalidData, "a checkpoint's entry leads out of it")) }
}

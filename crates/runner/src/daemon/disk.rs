//! The count of the disk that a sandbox uses.
//!
//! The tree belongs to a hostile program that changes it meanwhile: only handles are walked, no link is followed, depth and cost are bounded. What cannot be
//! counted within the bounds is over the limit. Files that have no name any more but are held open count too.

use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};

use runner::tree::Tree;

use super::shared::Shared;

/// Each level costs a descriptor while it is walked.
const DEEPEST: usize = 400;
/// What an entry costs at least, in a file system's own books: empty files are not free.
const ENTRY: u64 = 1024;
const EVERY: Duration = Duration::from_secs(1);
/// Files with several names whose names are told apart; beyond, each name counts.
const MOST_LINKED: usize = 100_000;

/// Counts every second until the turn ends. After a long count it rests longer, so that it takes a tenth of a processor at most.
pub(super) fn watch(shared: Arc<Shared>) -> io::Result<()> {
    let count = move || {
        let folders = [shared.folder.path.join("workspace"), shared.folder.path.join("home")];
        // Nothing is there to be counted in the first moment.
        let mut took = Duration::ZERO;
        while goes_on(&shared, Instant::now() + EVERY.max(took * 9)) {
            let start = Instant::now();
            if over(&folders, &open_files(&shared.folder.path), shared.spec.limits.disk) {
                shared.kill("disk_limit", Duration::ZERO);
            }
            took = start.elapsed();
        }
    };
    std::thread::Builder::new().name("disk".into()).spawn(count)?;
    Ok(())
}

/// Waits until then. False: there is nothing to count any more.
fn goes_on(shared: &Shared, rest: Instant) -> bool {
    let mut state = shared.lock();
    loop {
        if state.ended || state.kill.as_ref().is_some_and(|kill| kill.reason == "disk_limit") {
            return false;
        }
        let left = rest.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        state = shared.wait(state, left);
    }
}

/// The folders in `/proc` that list what the sandbox's tasks hold open. Each task's, since a thread can have a table of its own.
fn open_files(folder: &Path) -> Vec<PathBuf> {
    let roots = Tree::read(folder).unwrap_or_default().processes;
    let mut tasks = Vec::new();
    let mut next: Vec<i32> = roots.iter().map(|process| process.pid).collect();
    let mut seen = HashSet::new();
    while let Some(pid) = next.pop() {
        if !seen.insert(pid) {
            continue;
        }
        let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/task")) else { continue };
        for task in entries.flatten() {
            let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            next.extend(children.split_ascii_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
            tasks.push(task.path().join("fd"));
        }
    }
    tasks
}

fn over(folders: &[impl AsRef<Path>], open_files: &[PathBuf], limit: u64) -> bool {
    let mut count = Count { used: 0, limit, linked: HashSet::new(), device: None };
    let named = folders.iter().any(|folder| {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::open(folder.as_ref(), flags, Mode::empty()) {
            Ok(folder) => count.walk(folder),
            Err(_) => false,
        }
    });
    named || open_files.iter().any(|list| count.nameless(list))
}

struct Count {
    used: u64,
    limit: u64,
    linked: HashSet<(u64, u64)>,
    /// Where the folders are; what is open elsewhere is counted as memory.
    device: Option<u64>,
}

impl Count {
    /// Whether the limit is passed, here or before. Stops counting there.
    fn walk(&mut self, folder: OwnedFd) -> bool {
        self.device = rustix::fs::fstat(&folder).ok().map(|stat| stat.st_dev);
        let Ok(first) = Dir::new(folder) else {
            return false;
        };
        let mut open = vec![first];
        while let Some(dir) = open.last_mut() {
            let entry = match dir.next() {
                Some(Ok(entry)) => entry,
                Some(Err(_)) | None => {
                    open.pop();
                    continue;
                }
            };
            if matches!(entry.file_name().to_bytes(), b"." | b"..") {
                continue;
            }
            let Ok(handle) = dir.fd() else { continue };
            // It may be gone or replaced by now; the next count sees what is there then.
            let Ok(stat) = rustix::fs::statat(handle, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            let is_dir = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
            if is_dir || stat.st_nlink < 2 || self.first_name(stat.st_dev, stat.st_ino) {
                self.used += ENTRY.max(stat.st_blocks.cast_unsigned() * 512);
            }
            if self.used > self.limit || (is_dir && open_below(&mut open, entry.file_name())) {
                return true;
            }
        }
        false
    }

    /// Counts what is open without a name. Only asks: opening could wait for ever.
    fn nameless(&mut self, list: &Path) -> bool {
        let Ok(entries) = std::fs::read_dir(list) else { return false };
        for entry in entries.flatten() {
            let Ok(stat) = rustix::fs::stat(entry.path()) else { continue };
            let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
            let nameless = is_file && stat.st_nlink == 0 && Some(stat.st_dev) == self.device;
            if nameless && self.first_name(stat.st_dev, stat.st_ino) {
                self.used += ENTRY.max(stat.st_blocks.cast_unsigned() * 512);
            }
            if self.used > self.limit {
                return true;
            }
        }
        false
    }

    fn first_name(&mut self, device: u64, inode: u64) -> bool {
        self.linked.len() >= MOST_LINKED || self.linked.insert((device, inode))
    }
}

/// Goes one level down. True when it is too deep to be counted.
fn open_below(open: &mut Vec<Dir>, name: &std::ffi::CStr) -> bool {
    if open.len() >= DEEPEST {
        return true;
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let below = open.last().and_then(|dir| {
        let handle = rustix::fs::openat(dir.fd().ok()?, name, flags, Mode::empty()).ok()?;
        Dir::new(handle).ok()
    });
    // One that cannot be opened was replaced, or its owner hides it from a runner that is not root.
    open.extend(below);
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    type Outcome = Result<(), Box<dyn std::error::Error>>;

    #[test]
    fn what_is_written_counts_and_links_count_once() -> Outcome {
        let folder = tempfile::tempdir()?;
        std::fs::write(folder.path().join("a"), vec![1; 1 << 20])?;
        std::fs::hard_link(folder.path().join("a"), folder.path().join("b"))?;
        std::os::unix::fs::symlink("/usr", folder.path().join("c"))?;
        assert!(over(&[folder.path()], &[], 1 << 19));
        assert!(!over(&[folder.path()], &[], 3 << 19));
        Ok(())
    }

    #[test]
    fn what_is_open_without_a_name_counts() -> Outcome {
        let folder = tempfile::tempdir()?;
        let mut file = std::fs::File::create(folder.path().join("a"))?;
        io::Write::write_all(&mut file, &vec![1; 1 << 20])?;
        std::fs::remove_file(folder.path().join("a"))?;
        let open = [PathBuf::from("/proc/self/fd")];
        assert!(over(&[folder.path()], &open, 1 << 19));
        drop(file);
        assert!(!over(&[folder.path()], &open, 1 << 19));
        Ok(())
    }

    #[test]
    fn empty_files_are_not_free() -> Outcome {
        let folder = tempfile::tempdir()?;
        for name in 0..200 {
            std::fs::write(folder.path().join(name.to_string()), "")?;
        }
        assert!(over(&[folder.path()], &[], 100 * ENTRY));
        assert!(!over(&[folder.path()], &[], 300 * ENTRY));
        Ok(())
    }

    #[test]
    fn a_tree_too_deep_to_count_is_over_the_limit() -> Outcome {
        let folder = tempfile::tempdir()?;
        let mut at = rustix::fs::open(folder.path(), OFlags::RDONLY, Mode::empty())?;
        for _ in 0..=DEEPEST {
            rustix::fs::mkdirat(&at, "d", Mode::RWXU)?;
            at = rustix::fs::openat(&at, "d", OFlags::RDONLY, Mode::empty())?;
        }
        assert!(over(&[folder.path()], &[], u64::MAX));
        Ok(())
    }
}

//! The process tree of a sandbox: written down before it is used, so that whoever comes later can kill it and prove that it is gone.
//!
//! The file `tree` holds one line for each cgroup, then for bubblewrap's outer process and for the sandbox's first process. When a PID namespace's first
//! process is gone, so are all others in it; when a cgroup is empty, so are those. The runner's lock says nothing of either.
//!
//! The sandbox's first process also holds a lock on the file `alive` from before it is written down until it ends. Where its line is missing because the
//! runner died just then, no harness runs yet, all ends by itself but for rare cases, and the lock tells whether it has and whom to kill.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::process::{Pid, PidfdFlags, Signal};

use crate::procfs::{self, Process};

/// The file's name.
pub const FILE: &str = "tree";
/// The name of the file that the sandbox's first process locks.
pub const ALIVE: &str = "alive";

/// What a sandbox is made of, as the host sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// Its cgroups' folders.
    pub cgroups: Vec<PathBuf>,
    /// Its outermost processes.
    pub processes: Vec<Process>,
    alive: Option<PathBuf>,
}

impl Tree {
    /// The tree of a sandbox that is not started yet.
    pub fn new(folder: &Path) -> Self {
        Self { alive: Some(folder.join(ALIVE)), ..Self::default() }
    }

    /// Reads a folder's tree; without the file there is none.
    pub fn read(folder: &Path) -> io::Result<Self> {
        let text = match fs::read_to_string(folder.join(FILE)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            other => other?,
        };
        Ok(Self { alive: Some(folder.join(ALIVE)), ..Self::parse(&text) })
    }

    /// The locked file for the sandbox's first process; the lock lasts as long as any copy of the descriptor.
    pub fn lock(&self) -> io::Result<Option<File>> {
        let Some(path) = &self.alive else { return Ok(None) };
        // Not to be written: nobody would count what is.
        let flags = OFlags::RDONLY | OFlags::CREATE | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?);
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Some(file))
    }

    /// A torn last line was not used yet: what it names was to be made after it was written.
    fn parse(text: &str) -> Self {
        let mut tree = Self::default();
        for line in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
            if let Some(path) = line.strip_prefix("cgroup ") {
                tree.cgroups.push(path.into());
            } else if let Some((pid, start)) = line.strip_prefix("process ").and_then(|process| process.split_once(' '))
                && let (Ok(pid), Ok(start)) = (pid.parse(), start.parse())
            {
                tree.processes.push(Process { pid, start });
            }
        }
        tree
    }

    /// Adds a cgroup, on disk first.
    pub fn add_cgroup(&mut self, folder: &Path, path: PathBuf) -> io::Result<()> {
        append(folder, &format!("cgroup {}\n", path.display()))?;
        self.cgroups.push(path);
        Ok(())
    }

    /// Adds a process, on disk first.
    pub fn add_process(&mut self, folder: &Path, process: Process) -> io::Result<()> {
        append(folder, &format!("process {} {}\n", process.pid, process.start))?;
        self.processes.push(process);
        Ok(())
    }

    /// Whether nothing of it runs.
    pub fn gone(&self) -> bool {
        self.known_gone() && !self.is_locked()
    }

    /// Whether nothing of what is written down runs.
    fn known_gone(&self) -> bool {
        self.processes.iter().all(Process::gone) && self.cgroups.iter().all(|path| members(path).is_empty())
    }

    fn is_locked(&self) -> bool {
        let Some(file) = self.alive.as_ref().and_then(|path| File::open(path).ok()) else {
            return false;
        };
        let lock = rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared);
        matches!(lock, Err(rustix::io::Errno::WOULDBLOCK))
    }

    /// Sends SIGKILL to all of it, once.
    pub fn kill(&self) {
        for process in &self.processes {
            // The first process of a sandbox that was not written down yet is a child of the outer one.
            let children: Vec<_> = procfs::children(process.pid).into_iter().filter_map(Process::of).collect();
            if !process.gone() {
                process.signal(Signal::KILL);
                children.iter().for_each(|child| child.signal(Signal::KILL));
            }
        }
        for path in &self.cgroups {
            // There with v2 only, where it also takes what forks meanwhile.
            let _ = fs::write(path.join("cgroup.kill"), "1");
            kill_members(path);
        }
        // To look at every descriptor of the machine takes milliseconds, so it is done only for what is left when all else is gone.
        if self.known_gone() && self.is_locked() {
            self.holders().iter().for_each(|holder| holder.signal(Signal::KILL));
        }
    }

    /// Who has the file that the first process locks: bubblewrap waits for ever for its other half, where that was killed at a certain instant.
    fn holders(&self) -> Vec<Process> {
        // Open for as long as this looks: a removed file's number is given to the next file that anybody makes, and its owner would be killed.
        let Some(open) = self.alive.as_ref().and_then(|path| File::open(path).ok()) else { return Vec::new() };
        let Ok(file) = open.metadata() else { return Vec::new() };
        let holds = |process: &Process| {
            let Ok(fds) = fs::read_dir(format!("/proc/{}/fd", process.pid)) else { return false };
            fds.flatten().any(|fd| {
                let is_file = fs::metadata(fd.path()).is_ok_and(|open| (open.dev(), open.ino()) == (file.dev(), file.ino()));
                is_file && locks(process.pid, &fd.file_name())
            })
        };
        let others = procfs::all().filter(|pid| *pid != std::process::id().cast_signed());
        others.filter_map(Process::of).filter(holds).collect()
    }

    /// Kills all of it until it is proven gone, and removes its cgroups. False when it was not gone within the limit.
    pub fn end(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        let mut wait = Duration::from_millis(1);
        while !self.gone() {
            if Instant::now() >= until {
                return false;
            }
            self.kill();
            std::thread::sleep(wait);
            wait = (wait * 2).min(Duration::from_millis(50));
        }
        self.remove_cgroups();
        true
    }

    /// Removes its cgroups. The kernel can hold one for a moment after its last process; what stays is empty, and `end` finds it again.
    pub fn remove_cgroups(&self) {
        for path in &self.cgroups {
            for _ in 0..50 {
                match fs::remove_dir(path) {
                    Err(error) if error.raw_os_error() == Some(16) => {
                        std::thread::sleep(Duration::from_millis(2));
                    }
                    _ => break,
                }
            }
        }
    }
}

/// Whether a process's descriptor holds an exclusive lock. Another worker that only asks, as `is_locked` does, has the file open too.
fn locks(pid: i32, fd: &OsStr) -> bool {
    let info = fs::read_to_string(Path::new(&format!("/proc/{pid}/fdinfo")).join(fd)).unwrap_or_default();
    info.lines().any(|line| line.starts_with("lock:") && line.contains("FLOCK") && line.contains("WRITE"))
}

fn append(folder: &Path, line: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().append(true).create(true).open(folder.join(FILE))?;
    file.write_all(line.as_bytes())
}

fn members(cgroup: &Path) -> Vec<i32> {
    let list = fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
    list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// A pid is signalled only if it is a member still after a handle on it was taken, so that no other process is hit.
fn kill_members(cgroup: &Path) {
    let handles: Vec<_> = members(cgroup)
        .into_iter()
        .filter_map(Pid::from_raw)
        .filter_map(|pid| Some((pid, rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()?)))
        .collect();
    let still = members(cgroup);
    for (pid, handle) in handles {
        if still.contains(&pid.as_raw_nonzero().get()) {
            // It may have ended meanwhile.
            let _ = rustix::process::pidfd_send_signal(&handle, Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_reads_as_it_was_written_and_a_torn_line_is_not_there() {
        let text = "cgroup /a b/c\nprocess 7 99\nprocess 8 1";
        let tree = Tree::parse(text);
        assert_eq!(tree.cgroups, [PathBuf::from("/a b/c")]);
        assert_eq!(tree.processes, [Process { pid: 7, start: 99 }]);
    }

    #[test]
    fn who_holds_the_lock_is_told_from_who_has_the_file_open() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join(ALIVE);
        let lock = Tree::new(folder.path()).lock()?;
        let asks = File::open(&path)?;
        let me = std::process::id().cast_signed();
        let fd = |file: &File| std::ffi::OsString::from(std::os::fd::AsRawFd::as_raw_fd(file).to_string());
        assert!(lock.as_ref().is_some_and(|lock| locks(me, &fd(lock))));
        assert!(!locks(me, &fd(&asks)));
        Ok(())
    }

    #[test]
    fn what_is_locked_is_not_gone() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let lock = Tree::new(folder.path()).lock()?;
        let tree = Tree::read(folder.path())?;
        assert!(!tree.gone());
        drop(lock);
        assert!(tree.gone());
        Ok(())
    }

    #[test]
    fn who_holds_the_lock_and_is_not_written_down_is_killed() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let tree = Tree::new(folder.path());
        let lock = tree.lock()?.ok_or_else(|| io::Error::other("no lock"))?;
        let mut sleeper = std::process::Command::new("sleep").arg("1000").stdin(lock).spawn()?;
        // Not reaped before, so that it is killed and not just gone.
        assert!(tree.end(Duration::from_secs(10)));
        assert!(!sleeper.wait()?.success());
        Ok(())
    }

    #[test]
    fn a_tree_of_nothing_is_gone() {
        assert!(Tree::default().end(Duration::ZERO));
    }
}

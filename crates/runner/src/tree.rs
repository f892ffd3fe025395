//! The process tree of a sandbox: written down before it is used, so that whoever comes later can kill it and prove that it is gone.
//!
//! The file `tree` holds one line for each cgroup, then for bubblewrap's outer process and for the sandbox's first process. When a PID namespace's first
//! process is gone, so are all others in it; when a cgroup is empty, so are those. The runner's lock says nothing of either.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal};

use crate::procfs::{self, Process};

/// The file's name.
pub const FILE: &str = "tree";

/// What a sandbox is made of, as the host sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// Its cgroups' folders.
    pub cgroups: Vec<PathBuf>,
    /// Its outermost processes.
    pub processes: Vec<Process>,
}

impl Tree {
    /// Reads a folder's tree; without the file there is none.
    pub fn read(folder: &Path) -> io::Result<Self> {
        match fs::read_to_string(folder.join(FILE)) {
            Ok(text) => Ok(Self::parse(&text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error),
        }
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
        self.processes.iter().all(Process::gone) && self.cgroups.iter().all(|path| members(path).is_empty())
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
    fn a_tree_of_nothing_is_gone() {
        assert!(Tree::default().end(Duration::ZERO));
    }
}

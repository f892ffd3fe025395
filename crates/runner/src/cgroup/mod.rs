//! Memory, processes and cpus of one sandbox, by control groups: one port, two back ends for the kernel's two versions.
//!
//! A sandbox's groups are `sandlog/LABEL` below the group that the runner is in, or below the hierarchy's root where that one cannot have children.

mod mounts;
mod v1;
mod v2;

use std::io;
use std::path::{Path, PathBuf};

use crate::spec::Limits;

pub use v1::V1;
pub use v2::V2;

/// Which limits there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Has {
    /// Memory.
    pub memory: bool,
    /// Processes.
    pub processes: bool,
    /// Cpus.
    pub cpus: bool,
}

/// A way to limit sandboxes by control groups.
pub trait Cgroups {
    /// Which limits it sets.
    fn has(&self) -> Has;
    /// The folders that `make` makes, to be written down before.
    fn dirs(&self, label: &str) -> Vec<PathBuf>;
    /// Makes a sandbox's groups and sets its limits.
    fn make(&self, label: &str, limits: &Limits) -> io::Result<()>;
    /// Whether the memory limit killed a process of the sandbox.
    fn oom_killed(&self, label: &str) -> bool;
}

/// What this process can use. None where it may make no groups; the text says why.
pub fn detect() -> Result<Box<dyn Cgroups>, String> {
    let read = |path: &str| std::fs::read_to_string(path).map_err(|e| format!("{path}: {e}"));
    let mounts = mounts::parse(&read("/proc/self/mountinfo")?, &read("/proc/self/cgroup")?);
    if let Some(v1) = V1::detect(&mounts) {
        return Ok(Box::new(v1));
    }
    match V2::detect(&mounts) {
        Ok(v2) => Ok(Box::new(v2)),
        Err(why) => Err(format!("no cgroup controller can be used: {why}")),
    }
}

/// Joins a group, from a process of one thread.
///
/// A thread that moves itself takes no lock that all forks and exits of the machine have to be kept from, which is waited for by an RCU grace period: 20 ms of
/// a start where three groups are joined. Only v1 lets a thread join a group that limits memory.
pub fn join(group: &Path) -> io::Result<()> {
    let tasks = group.join("tasks");
    let list = if tasks.exists() { tasks } else { group.join("cgroup.procs") };
    put(&list, 0)
}

/// Processes that are not the harness's: bubblewrap's outer and the sandbox's first.
const OVERHEAD: u64 = 2;
/// The time over which a share of cpu is counted, in microseconds.
const PERIOD: u64 = 100_000;

fn quota(cpus: f64) -> u64 {
    // Not under the kernel's least quota of 1 ms.
    ((cpus * PERIOD as f64) as u64).max(1000)
}

/// Whether a group can be made below `parent`: by making one.
fn can_make_below(parent: &Path) -> bool {
    let probe = parent.join(format!("probe-{}", std::process::id()));
    std::fs::create_dir(&probe).is_ok() && std::fs::remove_dir(&probe).is_ok()
}

/// Makes a folder that may be there.
fn make_dir(path: &Path) -> io::Result<()> {
    match std::fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

/// Writes a file that the kernel made.
fn put(path: &Path, value: impl ToString) -> io::Result<()> {
    std::fs::write(path, value.to_string()).map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

/// The number after `key` in a file of lines `key number`.
fn counter(path: &Path, key: &str) -> u64 {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|line| line.split_once(' ')).find(|(name, _)| *name == key).and_then(|(_, value)| value.trim().parse().ok()).unwrap_or(0)
}

//! Control groups, version 1: a hierarchy for each controller.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags};

use super::mounts::Mount;
use super::{Cgroups, Has, OVERHEAD, PERIOD, can_make_below, counter, make_dir, put, quota};
use crate::spec::Limits;

/// The controllers that can be used, each with the group that sandboxes' groups go below.
#[derive(Debug, Default)]
pub struct V1 {
    memory: Option<PathBuf>,
    pids: Option<PathBuf>,
    cpu: Option<PathBuf>,
}

impl V1 {
    pub(super) fn detect(mounts: &[Mount]) -> Option<Self> {
        let parent = |controller: &str| {
            let mount = mounts.iter().find(|m| m.controllers.iter().any(|c| c == controller))?;
            [&mount.own, &mount.root].into_iter().find_map(|at| usable(at))
        };
        let v1 = Self { memory: parent("memory"), pids: parent("pids"), cpu: parent("cpu") };
        v1.parents().next()?;
        Some(v1)
    }

    fn parents(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.memory, &self.pids, &self.cpu].into_iter().flatten()
    }
}

/// The group is left there only where groups can be made below it, so that every runner after the first one needs not try.
fn usable(at: &Path) -> Option<PathBuf> {
    let parent = at.join("sandlog");
    match fs::create_dir(&parent) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => may_write(&parent).then_some(parent),
        Err(_) => None,
        Ok(()) if can_make_below(&parent) => Some(parent),
        Ok(()) => {
            // Another's groups may be below by now.
            let _ = fs::remove_dir(&parent);
            None
        }
    }
}

fn may_write(dir: &Path) -> bool {
    rustix::fs::accessat(rustix::fs::CWD, dir, Access::WRITE_OK | Access::EXEC_OK, AtFlags::empty()).is_ok()
}

impl Cgroups for V1 {
    fn has(&self) -> Has {
        Has { memory: self.memory.is_some(), processes: self.pids.is_some(), cpus: self.cpu.is_some() }
    }

    fn dirs(&self, label: &str) -> Vec<PathBuf> {
        let mut dirs: Vec<_> = self.parents().map(|parent| parent.join(label)).collect();
        // Controllers mounted together share their groups.
        dirs.dedup();
        dirs
    }

    fn make(&self, label: &str, limits: &Limits) -> io::Result<()> {
        for dir in self.dirs(label) {
            make_dir(&dir)?;
        }
        if let Some(parent) = &self.memory {
            set_memory(&parent.join(label), limits.memory)?;
        }
        if let Some(parent) = &self.pids {
            put(&parent.join(label).join("pids.max"), limits.processes + OVERHEAD)?;
        }
        if let Some(parent) = &self.cpu {
            let dir = parent.join(label);
            put(&dir.join("cpu.cfs_period_us"), PERIOD)?;
            put(&dir.join("cpu.cfs_quota_us"), quota(limits.cpus))?;
        }
        Ok(())
    }

    fn oom_killed(&self, label: &str) -> bool {
        let Some(parent) = &self.memory else {
            return false;
        };
        counter(&parent.join(label).join("memory.oom_control"), "oom_kill") > 0
    }
}

/// Without swap: the limit of both together, or, where swap is not counted, the wish not to swap.
fn set_memory(dir: &Path, bytes: u64) -> io::Result<()> {
    put(&dir.join("memory.limit_in_bytes"), bytes)?;
    let both = dir.join("memory.memsw.limit_in_bytes");
    if both.exists() {
        return put(&both, bytes);
    }
    // Not in every kernel; without swap it has no meaning.
    let _ = fs::write(dir.join("memory.swappiness"), "0");
    Ok(())
}

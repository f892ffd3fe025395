//! Control groups, version 2: one hierarchy. A group that gives controllers to its children may hold no processes itself, but for the real root.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::mounts::Mount;
use super::{Cgroups, Has, OVERHEAD, PERIOD, counter, make_dir, put, quota};
use crate::spec::Limits;

/// The group that sandboxes' groups go below, and what its children can be limited by.
#[derive(Debug)]
pub struct V2 {
    parent: PathBuf,
    has: Has,
}

const WANTED: [&str; 3] = ["memory", "pids", "cpu"];

impl V2 {
    pub(super) fn detect(mounts: &[Mount]) -> Result<Self, String> {
        let mount = mounts.iter().find(|mount| mount.controllers.is_empty()).ok_or("the cgroup file system is not mounted")?;
        let mut why = String::from("no group can be made");
        for (at, evacuate) in candidates(mount) {
            match Self::below(&at, evacuate) {
                Ok(v2) => return Ok(v2),
                Err(error) => why = format!("{}: {error}", at.display()),
            }
        }
        Err(why)
    }

    /// Prepares `at/sandlog`. With `evacuate`, the processes of `at` move to `at/main` before: a group of our own, given to us by delegation.
    fn below(at: &Path, evacuate: bool) -> io::Result<Self> {
        let offered = words(&at.join("cgroup.controllers"));
        if !WANTED.iter().any(|wanted| offered.iter().any(|one| one == wanted)) {
            return Err(io::Error::other("no memory, pids or cpu controller is delegated here"));
        }
        let parent = at.join("sandlog");
        make_dir(&parent)?;
        if evacuate {
            move_all(at, &at.join("main"))?;
        }
        enable(at);
        enable(&parent);
        let given = words(&parent.join("cgroup.subtree_control"));
        let has = |controller: &str| given.iter().any(|one| one == controller);
        let has = Has { memory: has("memory"), processes: has("pids"), cpus: has("cpu") };
        if has == Has::default() {
            return Err(io::Error::other("no controller can be given to groups below"));
        }
        Ok(Self { parent, has })
    }
}

/// Where to try, and whether processes have to move out of the way: the group that was emptied before, our own group if it may have children, then the
/// root, then our own group emptied.
fn candidates(mount: &Mount) -> Vec<(PathBuf, bool)> {
    let mut list = Vec::new();
    if let Some(above) = mount.own.parent()
        && mount.own.ends_with("main")
        && above.join("sandlog").exists()
    {
        list.push((above.to_owned(), false));
    }
    if may_have_children(&mount.own) {
        list.push((mount.own.clone(), false));
    }
    if mount.root != mount.own && may_have_children(&mount.root) {
        list.push((mount.root.clone(), false));
    }
    list.push((mount.own.clone(), true));
    list
}

/// The real root has no `cgroup.type` and is exempt from the rule; any other group must be empty.
fn may_have_children(group: &Path) -> bool {
    !group.join("cgroup.type").exists() || words(&group.join("cgroup.procs")).is_empty()
}

fn move_all(from: &Path, to: &Path) -> io::Result<()> {
    make_dir(to)?;
    for pid in words(&from.join("cgroup.procs")) {
        match fs::write(to.join("cgroup.procs"), &pid) {
            // It has ended.
            Err(error) if error.raw_os_error() == Some(3) => {}
            other => other?,
        }
    }
    Ok(())
}

/// Each on its own: one that is not offered must not keep the others away. What came of it is read back.
fn enable(group: &Path) {
    let offered = words(&group.join("cgroup.controllers"));
    let given = words(&group.join("cgroup.subtree_control"));
    for wanted in WANTED {
        let is_in = |list: &[String]| list.iter().any(|one| one == wanted);
        if is_in(&offered) && !is_in(&given) {
            let _ = fs::write(group.join("cgroup.subtree_control"), format!("+{wanted}"));
        }
    }
}

fn words(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_ascii_whitespace().map(Into::into).collect()
}

impl Cgroups for V2 {
    fn has(&self) -> Has {
        self.has
    }

    fn dirs(&self, label: &str) -> Vec<PathBuf> {
        vec![self.parent.join(label)]
    }

    fn make(&self, label: &str, limits: &Limits) -> io::Result<()> {
        let dir = self.parent.join(label);
        make_dir(&dir)?;
        if self.has.memory {
            put(&dir.join("memory.max"), limits.memory)?;
            // Not there where the kernel does not swap.
            let _ = put(&dir.join("memory.swap.max"), 0);
        }
        if self.has.processes {
            put(&dir.join("pids.max"), limits.processes + OVERHEAD)?;
        }
        if self.has.cpus {
            put(&dir.join("cpu.max"), format!("{} {PERIOD}", quota(limits.cpus)))?;
        }
        Ok(())
    }

    fn oom_killed(&self, label: &str) -> bool {
        counter(&self.parent.join(label).join("memory.events"), "oom_kill") > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Outcome = Result<(), Box<dyn std::error::Error>>;

    fn group(at: &Path, controllers: &str, procs: &str) -> io::Result<()> {
        fs::create_dir_all(at)?;
        fs::write(at.join("cgroup.type"), "domain\n")?;
        fs::write(at.join("cgroup.controllers"), controllers)?;
        fs::write(at.join("cgroup.subtree_control"), "")?;
        fs::write(at.join("cgroup.procs"), procs)
    }

    fn mount(root: &Path, own: &Path) -> Mount {
        Mount { controllers: Vec::new(), root: root.into(), own: own.into() }
    }

    #[test]
    fn a_group_with_processes_is_passed_over_for_the_root_and_emptied_last() -> Outcome {
        let tree = tempfile::tempdir()?;
        let own = tree.path().join("unit");
        group(&own, "cpu memory pids", "12\n")?;
        let tried = candidates(&mount(tree.path(), &own));
        assert_eq!(tried, [(tree.path().into(), false), (own.clone(), true)]);
        fs::write(own.join("cgroup.procs"), "")?;
        assert_eq!(candidates(&mount(tree.path(), &own))[0], (own, false));
        Ok(())
    }

    #[test]
    fn a_group_that_was_emptied_before_is_used_again() -> Outcome {
        let tree = tempfile::tempdir()?;
        let unit = tree.path().join("unit");
        group(&unit.join("main"), "cpu", "12\n")?;
        assert_ne!(candidates(&mount(tree.path(), &unit.join("main")))[0].0, unit);
        fs::create_dir(unit.join("sandlog"))?;
        assert_eq!(candidates(&mount(tree.path(), &unit.join("main")))[0], (unit, false));
        Ok(())
    }

    #[test]
    fn only_what_is_offered_and_not_given_yet_is_enabled() -> Outcome {
        let tree = tempfile::tempdir()?;
        group(tree.path(), "cpuset cpu", "")?;
        enable(tree.path());
        assert_eq!(fs::read_to_string(tree.path().join("cgroup.subtree_control"))?, "+cpu");
        Ok(())
    }

    #[test]
    fn no_controller_of_ours_is_an_error_that_leaves_nothing() -> Outcome {
        let tree = tempfile::tempdir()?;
        group(tree.path(), "cpuset io", "")?;
        assert!(V2::below(tree.path(), false).is_err());
        assert!(!tree.path().join("sandlog").exists());
        Ok(())
    }

    #[test]
    fn limits_are_written_in_the_kernels_words() -> Outcome {
        let tree = tempfile::tempdir()?;
        let has = Has { memory: true, processes: true, cpus: true };
        let v2 = V2 { parent: tree.path().into(), has };
        let limits = Limits { memory: 4096, cpus: 0.5, processes: 8, disk: 0, time_ms: 0 };
        v2.make("a", &limits)?;
        let read = |file: &str| fs::read_to_string(tree.path().join("a").join(file));
        assert_eq!(read("memory.max")?, "4096");
        assert_eq!(read("memory.swap.max")?, "0");
        assert_eq!(read("pids.max")?, "10");
        assert_eq!(read("cpu.max")?, "50000 100000");
        fs::write(tree.path().join("a/memory.events"), "low 0\noom 3\noom_kill 0\n")?;
        assert!(!v2.oom_killed("a"));
        fs::write(tree.path().join("a/memory.events"), "low 0\noom 3\noom_kill 1\n")?;
        assert!(v2.oom_killed("a"));
        Ok(())
    }
}

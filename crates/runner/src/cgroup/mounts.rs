//! Where the control group hierarchies are mounted, and which group of each this process is in. Pure.

use std::path::{Path, PathBuf};

/// A mounted hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mount {
    /// The controllers of a v1 hierarchy; none: v2.
    pub(super) controllers: Vec<String>,
    /// Where it is mounted.
    pub(super) root: PathBuf,
    /// The folder of this process's group; the mount itself where the group is not below what is mounted.
    pub(super) own: PathBuf,
}

/// From `/proc/self/mountinfo` and `/proc/self/cgroup`.
pub(super) fn parse(mountinfo: &str, cgroup: &str) -> Vec<Mount> {
    mountinfo.lines().filter_map(|line| mount(line, cgroup)).collect()
}

fn mount(line: &str, cgroup: &str) -> Option<Mount> {
    let (place, kind) = line.split_once(" - ")?;
    let mut place = place.split(' ').skip(3);
    let (mounted, root) = (unescape(place.next()?), PathBuf::from(unescape(place.next()?)));
    let mut kind = kind.split(' ');
    let (version, _, options) = (kind.next()?, kind.next()?, kind.next().unwrap_or(""));
    let controllers: Vec<String> = match version {
        "cgroup" => options.split(',').filter(|o| !matches!(*o, "rw" | "ro")).map(Into::into).collect(),
        "cgroup2" => Vec::new(),
        _ => return None,
    };
    let group = group(cgroup, controllers.first().map(String::as_str))?;
    let below = Path::new(group).strip_prefix(&mounted).ok();
    let own = below.map_or_else(|| root.clone(), |below| root.join(below));
    Some(Mount { controllers, root, own })
}

/// This process's group in the hierarchy of a controller, or of v2. Lines are `id:controllers:path`.
fn group<'a>(cgroup: &'a str, controller: Option<&str>) -> Option<&'a str> {
    cgroup.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (id, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let here = match controller {
            Some(controller) => controllers.split(',').any(|one| one == controller),
            None => id == "0" && controllers.is_empty(),
        };
        here.then_some(path)
    })
}

/// Blanks are written as `\040` and the like.
fn unescape(field: &str) -> String {
    field.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    const CGROUP: &str = "8:pids:/\n4:memory:/box/a\n3:cpu,cpuacct:/box\n0::/user.slice/s.scope\n";

    #[test]
    fn a_v1_group_below_the_mount_is_found() {
        let line = "30 25 0:26 / /sys/fs/cgroup/memory rw,nosuid shared:9 - cgroup cgroup rw,memory";
        let mounts = parse(line, CGROUP);
        assert_eq!(mounts[0].controllers, ["memory"]);
        assert_eq!(mounts[0].own, Path::new("/sys/fs/cgroup/memory/box/a"));
    }

    #[test]
    fn what_is_mounted_from_a_group_counts_from_there() {
        let line = "30 25 0:26 /box /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory";
        assert_eq!(parse(line, CGROUP)[0].own, Path::new("/sys/fs/cgroup/memory/a"));
        let line = "30 25 0:26 /other /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct";
        assert_eq!(parse(line, CGROUP)[0].own, Path::new("/sys/fs/cgroup/cpu"));
    }

    #[test]
    fn v2_has_no_controllers_in_its_mount() {
        let line = "30 25 0:26 / /sys/fs/cg\\040roup rw - cgroup2 cgroup2 rw,nsdelegate";
        let mounts = parse(line, CGROUP);
        assert!(mounts[0].controllers.is_empty());
        assert_eq!(mounts[0].own, Path::new("/sys/fs/cg roup/user.slice/s.scope"));
    }
}

//! What this host can give a sandbox: asked once, at a worker's start.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cgroup::{self, Has};
use crate::spec::User;

/// What a sandbox on this host has.
#[derive(Clone, Debug)]
pub struct Capabilities {
    /// The bubblewrap program.
    pub bwrap: PathBuf,
    /// Its version, as it says it.
    pub version: String,
    /// The limits by control groups.
    pub limits: Has,
    /// Why limits are missing, for people; empty when none is.
    pub missing: Vec<String>,
}

/// Finds bubblewrap and makes a sandbox with it, as `user` if given. An error says what is missing and how to get it.
pub fn probe(bwrap: Option<&Path>, user: Option<User>) -> Result<Capabilities, String> {
    let bwrap = match bwrap {
        Some(path) => path.to_owned(),
        None => find("bwrap").ok_or("bubblewrap is not installed: on Debian and Ubuntu, `apt-get install bubblewrap`")?,
    };
    let version = version(&bwrap)?;
    try_one(&bwrap, user)?;
    let (limits, mut missing) = match cgroup::detect() {
        Ok(cgroups) => (cgroups.has(), Vec::new()),
        Err(why) => (Has::default(), vec![why]),
    };
    for (has, what) in [
        (limits.memory, "memory is not limited"),
        (limits.processes, "processes are limited by RLIMIT_NPROC only"),
        (limits.cpus, "cpus are not limited"),
    ] {
        if !has {
            missing.push(what.to_owned());
        }
    }
    Ok(Capabilities { bwrap, version, limits, missing })
}

/// A program in `PATH`.
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|path| path.is_file())
}

fn version(bwrap: &Path) -> Result<String, String> {
    let failed = |error: io::Error| format!("{}: {error}", bwrap.display());
    let output = Command::new(bwrap).arg("--version").output().map_err(failed)?;
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let number = version.rsplit(' ').next().unwrap_or("");
    let mut parts = number.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    match (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) {
        (0, minor) if minor < 8 => Err(format!("{}: `{version}`, but 0.8 or newer is needed", bwrap.display())),
        _ => Ok(version),
    }
}

/// A real one: nothing else tells whether the kernel and its policies let it.
fn try_one(bwrap: &Path, user: Option<User>) -> Result<(), String> {
    let mut command = Command::new(bwrap);
    command.args(["--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent"]);
    command.args(["--uid", "1000", "--gid", "1000", "--ro-bind", "/usr", "/usr"]);
    for name in ["/bin", "/lib", "/lib32", "/lib64", "/libx32"] {
        match std::fs::read_link(name) {
            Ok(target) => command.arg("--symlink").arg(target).arg(name),
            Err(_) => command.args(["--ro-bind-try", name, name]),
        };
    }
    command.args(["--proc", "/proc", "--dev", "/dev", "--cap-drop", "ALL", "--", "true"]);
    command.env_clear().env("PATH", "/usr/bin:/bin").current_dir("/").stdin(Stdio::null());
    if let Some(user) = user {
        command.uid(user.uid).gid(user.gid);
    }
    let output = command.output().map_err(|error| format!("{}: {error}", bwrap.display()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(format!(
        "bubblewrap cannot make a sandbox here: {said}. User namespaces must be allowed for this user (see `sysctl user.max_user_namespaces`, \
         `kernel.unprivileged_userns_clone`, `kernel.apparmor_restrict_unprivileged_userns`)"
    ))
}

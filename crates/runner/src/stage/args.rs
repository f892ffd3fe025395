//! Bubblewrap's arguments: what the inside of a sandbox looks like.
//!
//! They go through a file in memory, so that neither the host's process list nor `/proc/1/cmdline` inside shows paths or environment.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;

use runner::spec::{FILES, Spec, TOOLS};
use rustix::fs::MemfdFlags;

use super::Sources;
use super::etc::Files;
use crate::plan::Plan;

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The arguments, without the command.
pub(super) fn list(spec: &Spec, sources: &Sources, etc: &Files, plan: &Plan, filter: RawFd) -> Vec<OsString> {
    let mut list = List(Vec::new());
    list.add(["--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent"]);
    list.add(["--new-session", "--cap-drop", "ALL", "--uid", "1000", "--gid", "1000"]);
    list.add(["--hostname", "sandbox", "--info-fd", &plan.info.to_string()]);
    // Its own first process could be traced by the harness; `exec` is that instead.
    list.add(["--as-pid-1", "--seccomp", &filter.to_string()]);
    system(&mut list);
    list.0.extend(etc.arguments());
    let room = spec.limits.disk.min(spec.limits.memory).to_string();
    list.add(["--proc", "/proc", "--dev", "/dev"]);
    for at in ["/dev/shm", "/tmp"] {
        list.add(["--perms", "1777", "--size", &room, "--tmpfs", at]);
    }
    list.add(["--symlink", "/tmp", "/var/tmp", "--dir", "/run"]);
    list.add([OsStr::new("--ro-bind"), sources.files.as_ref(), OsStr::new(FILES)]);
    list.add([OsStr::new("--bind"), sources.workspace.as_ref(), OsStr::new("/workspace")]);
    list.add([OsStr::new("--bind"), sources.home.as_ref(), OsStr::new("/home/agent")]);
    if let Some(tools) = &sources.tools {
        list.add([OsStr::new("--ro-bind"), tools.as_ref(), OsStr::new(TOOLS)]);
    }
    // What is left is in memory that nobody counts.
    list.add(["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", &spec.cwd]);
    environment(&mut list, spec);
    list.0
}

/// The arguments in a file in memory, at its beginning.
pub(super) fn write(list: &[OsString]) -> io::Result<File> {
    let mut file = File::from(rustix::fs::memfd_create("args", MemfdFlags::CLOEXEC)?);
    for argument in list {
        // What comes after it would be arguments of their own.
        if argument.as_bytes().contains(&0) {
            return Err(io::Error::other("a NUL in the sandbox's environment"));
        }
        file.write_all(argument.as_bytes())?;
        file.write_all(&[0])?;
    }
    file.rewind()?;
    Ok(file)
}

struct List(Vec<OsString>);

impl List {
    fn add<const N: usize>(&mut self, arguments: [impl AsRef<OsStr>; N]) {
        self.0.extend(arguments.iter().map(|argument| argument.as_ref().to_owned()));
    }
}

/// `/usr`, and what leads there as it does on the host.
fn system(list: &mut List) {
    list.add(["--ro-bind", "/usr", "/usr"]);
    for name in ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"] {
        match std::fs::read_link(name) {
            Ok(target) => list.add([OsStr::new("--symlink"), target.as_ref(), OsStr::new(name)]),
            Err(_) => list.add(["--ro-bind-try", name, name]),
        }
    }
}

fn environment(list: &mut List, spec: &Spec) {
    list.add(["--clearenv"]);
    let path = if spec.tools.is_some() { format!("{TOOLS}/bin:{PATH}") } else { PATH.to_owned() };
    for (name, value) in [
        ("PATH", path.as_str()),
        ("HOME", "/home/agent"),
        ("USER", "agent"),
        ("LOGNAME", "agent"),
        ("SHELL", "/bin/sh"),
        ("LANG", "C.UTF-8"),
        ("TMPDIR", "/tmp"),
        ("SANDLOG_FILES", FILES),
    ] {
        list.add(["--setenv", name, value]);
    }
    for (name, value) in &spec.env {
        list.add(["--setenv", name, value]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nul_cannot_smuggle_in_an_argument() {
        let list = ["--setenv", "A", "a\0--bind\0/\0/host"].map(OsString::from);
        assert!(write(&list).is_err());
        assert!(write(&list[..2]).is_ok());
    }
}

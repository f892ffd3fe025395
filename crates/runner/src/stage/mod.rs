//! `stage`: between the runner and bubblewrap. It joins the cgroups, stops being root, sets limits, waits for the word to go, and becomes bubblewrap.
//!
//! It dies with the runner: by the signal at the parent's death, and by the end of the pipe that it waits on.

mod args;
mod private;
mod seccomp;

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use runner::spec::{Spec, User};
use rustix::process::{Resource, Rlimit, Signal};
use rustix::thread::{Gid, Uid};

use crate::fds;
use crate::plan::Plan;

/// The folders that the sandbox is made of, where bubblewrap can reach them.
pub(crate) struct Sources {
    workspace: PathBuf,
    home: PathBuf,
    files: PathBuf,
    etc: PathBuf,
    /// The host's own, wherever it is.
    tools: Option<PathBuf>,
}

impl Sources {
    fn below(root: &Path, tools: Option<PathBuf>) -> Self {
        let at = |name: &str| root.join(name);
        Self { workspace: at("workspace"), home: at("home"), files: at("files"), etc: at("etc"), tools }
    }
}

pub(crate) fn main(plan: &str) -> io::Result<()> {
    let plan: Plan = serde_json::from_str(plan)?;
    die_with(plan.parent)?;
    let mut go = File::from(fds::take(plan.inside.go));
    let spec = Spec::read(&plan.folder)?;
    for group in &plan.cgroups {
        fs::write(group.join("cgroup.procs"), "0").map_err(|error| io::Error::other(format!("{}: {error}", group.display())))?;
    }
    let tools = spec.tools.as_ref().map(PathBuf::from);
    let sources = match spec.user {
        Some(user) => {
            let sources = private::mount(&plan.folder, tools)?;
            become_user(user)?;
            // A change of user clears it.
            die_with(plan.parent)?;
            sources
        }
        None => Sources::below(&plan.folder, tools),
    };
    rustix::thread::set_no_new_privs(true)?;
    set_limits(&spec)?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let filter = seccomp::write()?;
    fds::keep(&filter)?;
    let list = args::write(&args::list(&spec, &sources, &plan, filter.as_raw_fd()))?;
    fds::keep(&list)?;

    go.read_exact(&mut [0])?;
    // Bubblewrap sets its own, as soon as its other half would not wait for it in vain. Until then it ends by itself: `exec` finds the runner dead.
    rustix::process::set_parent_process_death_signal(None)?;
    let mut bwrap = Command::new(&spec.bwrap);
    bwrap.arg("--args").arg(list.as_raw_fd().to_string()).arg("--");
    bwrap.arg(format!("/proc/self/fd/{}", plan.inside.exe)).arg("exec");
    bwrap.arg(serde_json::to_string(&plan.inside)?).args(&spec.command);
    let error = bwrap.env_clear().current_dir("/").exec();
    Err(io::Error::other(format!("{}: {error}", spec.bwrap)))
}

fn die_with(parent: i32) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    match rustix::process::getppid() {
        Some(now) if now.as_raw_nonzero().get() == parent => Ok(()),
        _ => Err(io::Error::other("the runner is gone")),
    }
}

fn become_user(user: User) -> io::Result<()> {
    if user.uid == 0 || user.gid == 0 {
        return Err(io::Error::other("a sandbox's user cannot be root"));
    }
    rustix::thread::set_thread_groups(&[])?;
    let (gid, uid) = (Gid::from_raw(user.gid), Uid::from_raw(user.uid));
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid)?;
    Ok(())
}

fn set_limits(spec: &Spec) -> io::Result<()> {
    let lower = |resource: Resource, to: u64| {
        let hard = rustix::process::getrlimit(resource).maximum;
        let to = Some(hard.map_or(to, |hard| hard.min(to)));
        rustix::process::setrlimit(resource, Rlimit { current: to, maximum: to })
    };
    lower(Resource::Core, 0)?;
    lower(Resource::Fsize, spec.limits.disk)?;
    lower(Resource::Nofile, 16 * 1024)?;
    Ok(())
}

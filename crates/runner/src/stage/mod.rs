//! The stage: between the runner and bubblewrap. It joins the cgroups, stops being root, sets limits, waits for the word to go, and becomes bubblewrap.
//!
//! It dies with the runner: by the signal at the parent's death, and by the end of the pipe that it waits on.

mod args;
mod etc;
mod private;
mod seccomp;

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
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
    /// The host's own, wherever it is.
    tools: Option<PathBuf>,
}

impl Sources {
    fn below(root: &Path, tools: Option<PathBuf>) -> Self {
        let at = |name: &str| root.join(name);
        Self { workspace: at("workspace"), home: at("home"), files: at("files"), tools }
    }
}

/// What bubblewrap and the harness have for standard input and output, and bubblewrap for its complaints.
pub(crate) struct Streams {
    pub(crate) stdin: OwnedFd,
    pub(crate) out: OwnedFd,
    pub(crate) setup: OwnedFd,
}

impl Streams {
    pub(crate) fn fds(&self) -> [BorrowedFd<'_>; 3] {
        [&self.stdin, &self.out, &self.setup].map(AsFd::as_fd)
    }

    fn take(self) -> io::Result<()> {
        // First what tells of the others.
        rustix::stdio::dup2_stderr(&self.setup)?;
        rustix::stdio::dup2_stdin(&self.stdin)?;
        Ok(rustix::stdio::dup2_stdout(&self.out)?)
    }
}

/// `go` stays open: `exec` waits on it too.
pub(crate) fn main(plan: &Plan, folder: &Path, spec: &Spec, streams: Streams, go: &OwnedFd) -> io::Result<()> {
    die_with(plan.parent)?;
    streams.take()?;
    plan.cgroups.iter().try_for_each(|group| runner::cgroup::join(group))?;
    let tools = spec.tools.as_ref().map(PathBuf::from);
    let sources = match spec.user {
        Some(user) => {
            let sources = private::mount(folder, tools)?;
            become_user(user)?;
            // A change of user clears it.
            die_with(plan.parent)?;
            sources
        }
        None => Sources::below(folder, tools),
    };
    rustix::thread::set_no_new_privs(true)?;
    set_limits(spec)?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let filter = seccomp::write()?;
    let etc = etc::Files::open()?;
    let list = args::write(&args::list(spec, &sources, &etc, plan, filter.as_raw_fd()))?;
    etc.keep()?;
    fds::keep(&filter)?;
    fds::keep(&list)?;

    File::from(go.try_clone()?).read_exact(&mut [0])?;
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

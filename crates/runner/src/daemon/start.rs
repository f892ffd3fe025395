//! Starts the sandbox: groups and processes are written down before they are used.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use runner::cgroup::{self, Cgroups};
use runner::procfs::Process;
use runner::tree::Tree;
use rustix::fs::{MemfdFlags, Mode, OFlags};
use rustix::pipe::PipeFlags;
use rustix::process::PidfdFlags;

use super::shared::Shared;
use crate::fds;
use crate::fork::{self, Side, fork};
use crate::plan::{Inside, Plan};
use crate::stage::{self, Streams};

/// A sandbox that is being started, with the runner's ends of its pipes.
pub(super) struct Sandbox {
    /// Bubblewrap's outer process: its end is the harness's.
    pub(super) outer: Process,
    pub(super) outer_ends: OwnedFd,
    pub(super) stdin: OwnedFd,
    pub(super) out: OwnedFd,
    pub(super) err: OwnedFd,
    /// What bubblewrap itself complains about.
    pub(super) setup: OwnedFd,
    /// Where bubblewrap tells the sandbox's first process.
    pub(super) info: File,
    pub(super) status: OwnedFd,
    pub(super) go: File,
    /// Where the listener of the way to the outside comes from, if there is one.
    pub(super) outside: Option<UnixStream>,
}

/// The limits of control groups, where there are any.
pub(super) struct Limiter {
    cgroups: Option<Box<dyn Cgroups>>,
    label: String,
}

impl Limiter {
    pub(super) fn detect(label: &str) -> Self {
        let cgroups = cgroup::detect().inspect_err(|why| eprintln!("{why}")).ok();
        Self { cgroups, label: format!("{label}_{}", std::process::id()) }
    }

    /// Makes the groups; says whether they limit processes.
    fn make(&self, shared: &Shared, tree: &mut Tree) -> io::Result<bool> {
        let Some(cgroups) = &self.cgroups else { return Ok(false) };
        for dir in cgroups.dirs(&self.label) {
            tree.add_cgroup(&shared.folder.path, dir)?;
        }
        cgroups.make(&self.label, &shared.spec.limits)?;
        Ok(cgroups.has().processes)
    }

    pub(super) fn oom_killed(&self) -> bool {
        self.cgroups.as_ref().is_some_and(|cgroups| cgroups.oom_killed(&self.label))
    }
}

/// Forks bubblewrap's first stage, which waits for a word at `go`. From the main thread only, before there are others.
pub(super) fn start(shared: &Shared, tree: &mut Tree, limiter: &Limiter) -> io::Result<Sandbox> {
    let folder = &shared.folder.path;
    let has_processes = limiter.make(shared, tree)?;
    let no_lock = || io::Error::other("no folder to lock");
    let alive = OwnedFd::from(tree.lock()?.ok_or_else(no_lock)?);
    let exe = rustix::fs::open("/proc/self/exe", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let (stdin_read, stdin) = pipe()?;
    let (out, out_write) = pipe()?;
    let (err, err_write) = pipe()?;
    let (setup, setup_write) = pipe()?;
    // Not a pipe, which would break and end bubblewrap where it must not end.
    let info = rustix::fs::memfd_create("info", MemfdFlags::CLOEXEC)?;
    let (status, status_write) = pipe()?;
    let (go_read, go) = pipe()?;
    let (outside, outside_inner) = match &shared.spec.outside {
        Some(_) => UnixStream::pair().map(|(ours, inner)| (Some(ours), Some(inner)))?,
        None => (None, None),
    };
    for fd in [&stdin, &out, &err, &setup, &status] {
        rustix::io::ioctl_fionbio(fd, true)?;
    }
    let plan = Plan {
        parent: std::process::id().cast_signed(),
        cgroups: tree.cgroups.clone(),
        info: info.as_raw_fd(),
        inside: Inside {
            alive: alive.as_raw_fd(),
            go: go_read.as_raw_fd(),
            status: status_write.as_raw_fd(),
            err: err_write.as_raw_fd(),
            exe: exe.as_raw_fd(),
            outside: outside_inner.as_ref().map(AsRawFd::as_raw_fd),
            processes: (!has_processes).then_some(shared.spec.limits.processes),
        },
    };
    let handle = match fork()? {
        Side::Child => {
            let streams = Streams { stdin: stdin_read, out: out_write, setup: setup_write };
            let kept = [&exe, &alive, &err_write, &info, &status_write, &go_read].into_iter().map(AsFd::as_fd);
            let kept = kept.chain(outside_inner.as_ref().map(AsFd::as_fd));
            fork::end(into_stage(kept.collect(), streams, |streams| stage::main(&plan, folder, &shared.spec, streams, &go_read)))
        }
        Side::Parent(handle) => handle,
    };
    // Our copies of its ends close here, so that the pipes end with it.
    drop((stdin_read, out_write, err_write, setup_write, status_write, go_read, outside_inner));
    let outer = Process::of(handle.as_raw_nonzero().get()).ok_or_else(|| io::Error::other("the first stage is gone"))?;
    let outer_ends = rustix::process::pidfd_open(handle, PidfdFlags::empty())?;
    tree.add_process(folder, outer)?;
    let mut go = File::from(go);
    io::Write::write_all(&mut go, b"1")?;
    Ok(Sandbox { outer, outer_ends, stdin, out, err, setup, info: info.into(), status, go, outside })
}

/// The lock, the door and our ends of the pipes are the runner's alone: who has them looks like it, or keeps them open when it is dead.
fn into_stage(kept: Vec<BorrowedFd<'_>>, streams: Streams, main: impl FnOnce(Streams) -> io::Result<()>) -> io::Result<()> {
    let numbers = kept.iter().chain(&streams.fds()).map(AsRawFd::as_raw_fd).collect::<Vec<_>>();
    fds::close_others(&numbers)?;
    kept.iter().try_for_each(fds::keep)?;
    main(streams)
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?)
}

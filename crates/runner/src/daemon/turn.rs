//! The turn: from the start of the sandbox to its exit record. One thread, one poll.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use runner::journal::{Body, Exit};
use runner::procfs::Process;
use runner::tree::Tree;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};

use super::boot::{Boot, Stage};
use super::shared::{Kill, Shared};
use super::start::{self, Limiter, Sandbox};
use super::stdin::Stdin;
use super::stream::Stream;
use super::writer::Writer;
use super::{clock, disk, outside};

/// Between SIGINT and SIGKILL when the time is over.
const TIME_GRACE: Duration = Duration::from_secs(2);
/// How long a pipe may stay open after the tree is gone.
const DRAIN_LIMIT: Duration = Duration::from_secs(2);
/// How long egress may take to tell of the last requests.
const OUTSIDE_LIMIT: Duration = Duration::from_secs(5);
/// How often to look for what no descriptor tells.
const LOOK: Duration = Duration::from_secs(1);
/// How often to repeat a kill that has not worked yet.
const AGAIN: Duration = Duration::from_millis(20);

struct Turn<'a> {
    shared: &'a Arc<Shared>,
    tree: Tree,
    writer: Writer,
    outer: Process,
    outer_ends: OwnedFd,
    boot: Boot,
    stdin: Stdin,
    out: Stream,
    err: Stream,
    interrupted: bool,
}

/// A turn whose sandbox is being started, or could not be.
pub(super) struct Started {
    tree: Tree,
    limiter: Limiter,
    sandbox: io::Result<Sandbox>,
}

/// Starts the sandbox; how that goes is for `run`.
pub(super) fn start(shared: &Shared) -> Started {
    let mut tree = Tree::new(&shared.folder.path);
    let limiter = Limiter::detect(&shared.spec.label);
    let sandbox = start::start(shared, &mut tree, &limiter);
    Started { tree, limiter, sandbox }
}

/// Runs the turn to its end. An error means that the journal cannot be written; the tree is gone then too.
pub(super) fn run(shared: &Arc<Shared>, journal: File, Started { tree, limiter, sandbox }: Started) -> io::Result<()> {
    let mut writer = Writer::new(journal);
    let sandbox = match sandbox {
        Ok(sandbox) => sandbox,
        Err(error) => {
            end_tree(&tree);
            tree.remove_cgroups();
            writer.put(Body::SetupFailed { message: error.to_string() });
            return writer.end(Exit { code: Some(1), ..Exit::default() }, shared);
        }
    };
    let Sandbox { outer, outer_ends, stdin, out, err, setup, info, status, go, outside } = sandbox;
    let mut turn = Turn {
        shared,
        tree,
        writer,
        outer,
        outer_ends,
        boot: Boot::new(go, info, status, setup),
        stdin: Stdin::new(stdin),
        out: Stream::out(out),
        err: Stream::err(err),
        interrupted: false,
    };
    let watched = disk::watch(Arc::clone(shared)).and_then(|()| outside::open(Arc::clone(shared), outside));
    let ended = watched.and_then(|()| turn.until_outer_ends());
    end_tree(&turn.tree);
    let oom = limiter.oom_killed();
    turn.tree.remove_cgroups();
    turn.finish(ended?, oom)
}

/// Kills what is left, until it is proven gone, however long that takes: an exit record may not come before.
fn end_tree(tree: &Tree) {
    // Nearly always it ends by itself just now.
    let mut wait = Duration::from_micros(100);
    loop {
        reap();
        if tree.gone() {
            return;
        }
        tree.kill();
        std::thread::sleep(wait);
        wait = (wait * 2).min(Duration::from_millis(2));
    }
}

/// Takes in the ends of all children but the outer one's, which is taken by its pid before.
fn reap() {
    while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
}

impl Turn<'_> {
    fn until_outer_ends(&mut self) -> io::Result<WaitStatus> {
        loop {
            if let Some(status) = self.outer_status()? {
                return Ok(status);
            }
            if let Some(body) = self.boot.step(&mut self.tree, &self.shared.folder.path)? {
                self.writer.put(body);
            }
            self.stdin.feed(self.shared);
            if self.may_read() {
                self.out.take(&mut self.writer);
                self.err.take(&mut self.writer);
                self.shared.joins.put(&mut self.writer);
            }
            self.writer.flush(self.shared)?;
            self.shared.joins.flushed();
            self.check_limits();
            let next = self.obey_kill();
            self.wait(next)?;
        }
    }

    fn outer_status(&self) -> io::Result<Option<WaitStatus>> {
        let pid = Pid::from_raw(self.outer.pid);
        match rustix::process::waitpid(pid, WaitOptions::NOHANG) {
            Ok(ended) => Ok(ended.map(|(_, status)| status)),
            Err(rustix::io::Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Output is read once the start is in the journal, and not while too much of the journal is uncommitted.
    fn may_read(&self) -> bool {
        let state = self.shared.lock();
        self.boot.stage == Stage::Running && state.end - state.committed < self.shared.spec.max_uncommitted
    }

    fn check_limits(&self) {
        let (spec, now) = (&self.shared.spec, clock::now());
        if self.boot.stage == Stage::Running && now >= self.boot.since + Duration::from_millis(spec.limits.time_ms) {
            self.shared.kill_once("time_limit", TIME_GRACE);
        }
        let last_alive = self.shared.lock().last_alive;
        if now >= last_alive + self.shared.dead_man() {
            self.shared.kill_once("dead_man", Duration::ZERO);
        }
        if self.boot.too_long() {
            self.shared.kill_once("setup", Duration::ZERO);
        }
        if self.shared.folder.replaced() {
            self.shared.lock().dismissed = true;
            self.shared.kill_once("killed:folder_gone", Duration::ZERO);
        }
    }

    /// Takes a kill's next step; says when the one after is due.
    fn obey_kill(&mut self) -> Option<Duration> {
        let Kill { at, .. } = self.shared.lock().kill.clone()?;
        let now = clock::now();
        if self.boot.stage == Stage::Running && now < at {
            if !std::mem::replace(&mut self.interrupted, true)
                && let Some(harness) = &self.boot.harness
            {
                harness.signal(Signal::INT);
            }
            return Some(at);
        }
        self.tree.kill();
        Some(now + AGAIN)
    }

    fn wait(&mut self, next: Option<Duration>) -> io::Result<()> {
        let now = clock::now();
        let time_limit = Duration::from_millis(self.shared.spec.limits.time_ms);
        let over = (self.boot.stage == Stage::Running && !self.interrupted).then(|| self.boot.since + time_limit);
        let due = [next, over, self.boot.look_again()].into_iter().flatten().min();
        let limit = due.map_or(LOOK, |due| due.saturating_sub(now).min(LOOK));

        let read = self.may_read();
        let mut fds: Vec<BorrowedFd<'_>> = vec![self.outer_ends.as_fd(), self.shared.wake.as_fd()];
        fds.extend(self.boot.fds().map(AsFd::as_fd));
        if read {
            fds.extend([&self.out, &self.err].into_iter().filter_map(|stream| Some(stream.fd()?.as_fd())));
        }
        let mut fds: Vec<_> = fds.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        let input = self.stdin.waiting(self.shared);
        fds.extend(input.map(|fd| PollFd::new(fd, PollFlags::OUT)));
        let limit = Timespec { tv_sec: limit.as_secs().cast_signed(), tv_nsec: limit.subsec_nanos().into() };
        match poll(&mut fds, Some(&limit)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        // Level-triggered otherwise.
        let _ = rustix::io::read(&self.shared.wake, &mut [0u8; 8]);
        Ok(())
    }

    /// The tree is gone: what is in the pipes, then the exit record.
    fn finish(mut self, status: WaitStatus, oom: bool) -> io::Result<()> {
        // The start's last word may have come with the end.
        if let Some(body) = self.boot.step(&mut self.tree, &self.shared.folder.path)? {
            self.writer.put(body);
        }
        let kill = self.shared.lock().kill.clone();
        let in_setup = matches!(self.boot.stage, Stage::Setup | Stage::Starting);
        let ordered = kill.as_ref().is_some_and(|kill| kill.reason != "setup");
        if in_setup && !ordered {
            let message = if kill.is_some() { "it took too long".to_owned() } else { self.boot.complaint() };
            self.writer.put(Body::SetupFailed { message });
        }
        if self.boot.stage == Stage::Running {
            self.drain()?;
        }
        self.close_outside()?;
        let reason = kill.filter(|_| ordered).map(|kill| kill.reason);
        self.writer.end(exit(status, reason, oom), self.shared)
    }

    /// Nobody is left who could ask, so the connections end with what egress has to say of the last requests.
    fn close_outside(&mut self) -> io::Result<()> {
        let until = Instant::now() + OUTSIDE_LIMIT;
        let joins = &self.shared.joins;
        joins.close();
        loop {
            let last = joins.is_empty() || Instant::now() >= until;
            if last {
                joins.give_up(&mut self.writer);
            }
            joins.put(&mut self.writer);
            self.writer.flush(self.shared)?;
            joins.flushed();
            if last {
                return Ok(());
            }
            joins.wait();
        }
    }

    /// Nobody is left who could write, so the pipes end with what is in them. The limit on uncommitted journal waits: pipes hold little.
    fn drain(&mut self) -> io::Result<()> {
        let until = Instant::now() + DRAIN_LIMIT;
        for stream in [&mut self.out, &mut self.err] {
            while stream.fd().is_some() && Instant::now() < until {
                if !stream.take(&mut self.writer) {
                    std::thread::sleep(Duration::from_millis(2));
                }
                self.writer.flush(self.shared)?;
            }
            stream.finish(&mut self.writer);
        }
        Ok(())
    }
}

/// Bubblewrap ends with the harness's code, or with 128 and its signal.
fn exit(status: WaitStatus, reason: Option<String>, oom: bool) -> Exit {
    let code = status.exit_status();
    let told = |code: &i32| (129..=192).contains(code);
    let signal = status.terminating_signal().or_else(|| code.filter(told).map(|code| code - 128));
    Exit { code, signal, reason, oom }
}

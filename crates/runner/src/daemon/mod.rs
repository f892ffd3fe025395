//! `daemon`: the supervisor itself.
//!
//! The main thread runs the turn and writes the journal; it alone starts the sandbox, since a sandbox dies with the thread that forked it. The door, each
//! visitor, each connection to the outside and the count of the disk have threads of their own, and meet the turn in [`shared::Shared`].

mod boot;
mod clock;
mod disk;
mod door;
mod join;
mod joins;
mod lines;
mod outside;
mod setup;
mod shared;
mod signals;
mod start;
mod stdin;
mod stream;
mod turn;
mod visit;
mod writer;

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::Mode;

use crate::fds;
use crate::guard::Guard;
use shared::Shared;

pub(crate) fn main(folder: &Path, ready: File) -> io::Result<()> {
    rustix::process::setsid()?;
    // By which a look at the processes tells it from its launcher and its guard: the command line is the same.
    rustix::thread::set_name(c"sandlog-daemon")?;
    rustix::process::umask(Mode::from_raw_mode(0o077));
    // What the sandbox leaves behind becomes this process's child, to be reaped.
    rustix::process::set_child_subreaper(rustix::process::Pid::from_raw(1))?;
    signals::outlive()?;

    let (mut guard, mut ready) = Guard::start(folder, ready)?;
    let setup::Ready { shared, listener, lock, journal } = setup::prepare(folder)?;
    guard.watch()?;
    fds::complain_to(&folder.join("log"))?;
    let shared = Arc::new(shared);
    // Forks, so before any thread.
    let started = turn::start(&shared);
    door::open(listener, Arc::clone(&shared))?;
    // The launcher's streams, the fence among them.
    fds::let_go()?;
    // Whoever waits for it may be gone, which changes nothing.
    let _ = ready.write_all(b"k");
    drop(ready);

    turn::run(&shared, journal, started)?;
    guard.dismiss();
    linger(&shared);
    drop(lock);
    Ok(())
}

/// After the turn: serves visitors until it is dismissed, its folder is gone, or nobody came for the dead-man limit. Nothing is lost by its end: the journal
/// is a file.
fn linger(shared: &Shared) {
    let ended = clock::now();
    let mut state = shared.lock();
    while !state.dismissed && !shared.folder.replaced() {
        if clock::now().saturating_sub(state.last_alive.max(ended)) > shared.dead_man() {
            break;
        }
        state = shared.wait(state, std::time::Duration::from_secs(1));
    }
}

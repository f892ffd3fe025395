//! What the turn and the visitors share.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use runner::spec::Spec;
use rustix::fs::FallocateFlags;

use super::clock;
use super::joins::Joins;

/// Committed journal is dropped from the disk in steps of this many bytes.
const PUNCH: u64 = 1 << 20;

/// Shared by all threads.
pub(super) struct Shared {
    pub(super) spec: Spec,
    pub(super) folder: Folder,
    /// For reading at any place, and for punching out.
    pub(super) journal: File,
    /// The inbox's record of what was fed.
    pub(super) inbox: File,
    state: Mutex<State>,
    /// The journal grew, the turn ended, or the runner was dismissed.
    pub(super) changed: Condvar,
    /// Wakes the turn out of its poll.
    pub(super) wake: OwnedFd,
    /// The sandbox's connections to the outside.
    pub(super) joins: Joins,
}

/// The sandbox's folder.
pub(super) struct Folder {
    pub(super) path: PathBuf,
    pub(super) handle: File,
    id: (u64, u64),
}

/// What changes.
pub(super) struct State {
    /// The highest epoch obeyed; on disk.
    pub(super) epoch: u64,
    /// Connections, each with its epoch.
    pub(super) visitors: Vec<Visitor>,
    /// Where the journal ends.
    pub(super) end: u64,
    pub(super) committed: u64,
    punched: u64,
    /// The exit record is written.
    pub(super) ended: bool,
    pub(super) inbox_next: u64,
    /// For the harness's standard input: bytes, and whether it closes then.
    pub(super) input: VecDeque<(Vec<u8>, bool)>,
    pub(super) kill: Option<Kill>,
    pub(super) last_alive: Duration,
    pub(super) dismissed: bool,
}

/// A connection.
pub(super) struct Visitor {
    pub(super) number: u64,
    pub(super) epoch: u64,
    pub(super) stream: UnixStream,
}

/// A kill under way: SIGINT now, SIGKILL to everything at `at`.
#[derive(Clone)]
pub(super) struct Kill {
    pub(super) reason: String,
    pub(super) at: Duration,
}

impl Folder {
    pub(super) fn open(path: PathBuf) -> io::Result<Self> {
        let handle = File::open(&path)?;
        let meta = handle.metadata()?;
        Ok(Self { path, handle, id: (meta.dev(), meta.ino()) })
    }

    /// Whether its path leads elsewhere by now, or nowhere.
    pub(super) fn replaced(&self) -> bool {
        match std::fs::symlink_metadata(&self.path) {
            Ok(meta) => (meta.dev(), meta.ino()) != self.id,
            Err(error) => matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
        }
    }
}

impl Shared {
    pub(super) fn new(spec: Spec, folder: Folder, journal: File, inbox: File, epoch: u64) -> io::Result<Self> {
        let flags = rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK;
        let state = State {
            epoch,
            visitors: Vec::new(),
            end: 0,
            committed: 0,
            punched: 0,
            ended: false,
            inbox_next: 0,
            input: VecDeque::new(),
            kill: None,
            last_alive: clock::now(),
            dismissed: false,
        };
        let wake = rustix::event::eventfd(0, flags)?;
        let joins = Joins::new()?;
        Ok(Self { spec, folder, journal, inbox, state: Mutex::new(state), changed: Condvar::new(), wake, joins })
    }

    /// A panic elsewhere leaves plain values, which stay usable.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn wait<'a>(&self, state: MutexGuard<'a, State>, limit: Duration) -> MutexGuard<'a, State> {
        self.changed.wait_timeout(state, limit).unwrap_or_else(PoisonError::into_inner).0
    }

    pub(super) fn dead_man(&self) -> Duration {
        Duration::from_millis(self.spec.dead_man_ms)
    }

    /// Wakes the turn.
    pub(super) fn wake(&self) {
        // Full means that it is awake.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Orders the end. The first reason stays; a repeat can only make it sooner.
    pub(super) fn kill(&self, reason: &str, grace: Duration) {
        let mut state = self.lock();
        let at = clock::now().saturating_add(grace);
        match &mut state.kill {
            Some(kill) => kill.at = kill.at.min(at),
            None => state.kill = Some(Kill { reason: reason.to_owned(), at }),
        }
        drop(state);
        self.wake();
    }

    /// Orders the end for a limit, unless an end is ordered already: a limit that stays passed must not shorten another order's grace each time it is seen.
    pub(super) fn kill_once(&self, reason: &str, grace: Duration) {
        if self.lock().kill.is_none() {
            self.kill(reason, grace);
        }
    }

    /// The journal before `offset` may go. An offset that is no record's end is refused: punching there would tear a record.
    pub(super) fn committed(&self, offset: u64) -> io::Result<()> {
        let mut state = self.lock();
        if offset <= state.committed {
            return Ok(());
        }
        let mut first = [0];
        let at_record = offset < state.end && {
            self.journal.read_exact_at(&mut first, offset)?;
            first[0] == runner::journal::MAGIC
        };
        if offset != state.end && !at_record {
            return Err(io::Error::other(format!("no record ends at {offset}")));
        }
        state.committed = offset;
        // After the end it all goes soon, and the exit record must be found until then.
        if !state.ended && offset - state.punched >= PUNCH {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            // A file system without holes keeps the bytes.
            let _ = rustix::fs::fallocate(&self.journal, flags, 0, offset);
            state.punched = offset;
        }
        drop(state);
        self.wake();
        Ok(())
    }
}

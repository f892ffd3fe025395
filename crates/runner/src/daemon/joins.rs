//! What the connections to the outside and the turn share: who is joined, and the records on their way into the journal.

use std::collections::VecDeque;
use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use runner::journal::{Body, Door};

use super::shared::Shared;
use super::writer::Writer;

/// Connections at a time.
const MOST: usize = 64;

/// All connections.
pub(super) struct Joins {
    state: Mutex<State>,
    changed: Condvar,
    /// Readable from the turn's end on.
    pub(super) closed: OwnedFd,
}

#[derive(Default)]
struct State {
    open: Vec<Join>,
    next: u64,
    /// Records, in order; the first has the number `put`.
    waiting: VecDeque<Door>,
    put: u64,
    flushed: u64,
    /// Nothing goes into the journal any more.
    over: bool,
}

/// One connection.
struct Join {
    number: u64,
    egress: Option<UnixStream>,
    asked: Arc<AtomicBool>,
}

/// A connection's place among all; it leaves when this is dropped.
pub(super) struct Seat {
    pub(super) shared: Arc<Shared>,
    number: u64,
    /// A request is under way.
    pub(super) asked: Arc<AtomicBool>,
}

impl Joins {
    pub(super) fn new() -> io::Result<Self> {
        let flags = rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK;
        Ok(Self { state: Mutex::default(), changed: Condvar::new(), closed: rustix::event::eventfd(0, flags)? })
    }

    /// A panic elsewhere leaves plain values, which stay usable.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn are_full(&self) -> bool {
        self.lock().open.len() >= MOST
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().open.is_empty()
    }

    /// Puts what waits into the journal. By the turn only, as are the next four.
    pub(super) fn put(&self, writer: &mut Writer) {
        let mut state = self.lock();
        while let Some(door) = state.waiting.pop_front() {
            writer.put(Body::Door(Box::new(door)));
            state.put += 1;
        }
    }

    /// What was put is written.
    pub(super) fn flushed(&self) {
        let mut state = self.lock();
        if state.flushed < state.put {
            state.flushed = state.put;
            drop(state);
            self.changed.notify_all();
        }
    }

    /// No new connections.
    pub(super) fn close(&self) {
        // It holds the number until somebody reads it, which nobody does.
        let _ = rustix::io::write(&self.closed, &1u64.to_ne_bytes());
    }

    /// Waits a moment for a record or the end of a connection.
    pub(super) fn wait(&self) {
        let state = self.lock();
        if state.waiting.is_empty() && !state.open.is_empty() {
            drop(self.changed.wait_timeout(state, Duration::from_millis(100)));
        }
    }

    /// Those that are joined still are told of here; what they say later is nowhere.
    pub(super) fn give_up(&self, writer: &mut Writer) {
        let mut state = self.lock();
        state.over = true;
        while let Some(door) = state.waiting.pop_front() {
            writer.put(Body::Door(Box::new(door)));
        }
        for join in &state.open {
            if join.asked.load(Ordering::SeqCst) {
                writer.put(Body::Door(Box::new(Door { left: true, refused: Some("egress".into()), ..Door::default() })));
            }
            // It may have ended by now.
            let _ = join.egress.as_ref().map(|egress| egress.shutdown(Shutdown::Both));
        }
        drop(state);
        self.changed.notify_all();
    }
}

impl Seat {
    pub(super) fn take(shared: Arc<Shared>) -> Self {
        let asked = Arc::new(AtomicBool::new(false));
        let mut state = shared.joins.lock();
        let number = state.next;
        state.next += 1;
        state.open.push(Join { number, egress: None, asked: Arc::clone(&asked) });
        drop(state);
        Self { shared, number, asked }
    }

    /// What to break off should egress not end it.
    pub(super) fn joined(&self, egress: UnixStream) {
        let mut state = self.shared.joins.lock();
        if let Some(join) = state.open.iter_mut().find(|join| join.number == self.number) {
            join.egress = Some(egress);
        }
    }

    /// The request under way is over. Returns once that is in the journal, so that the sandbox can do nothing on it before; the journal's limit holds back
    /// the sandbox's requests in this way too.
    pub(super) fn record(&self, door: Door) {
        let joins = &self.shared.joins;
        let mut state = joins.lock();
        if state.over {
            return;
        }
        self.asked.store(false, Ordering::SeqCst);
        let number = state.put + state.waiting.len() as u64;
        state.waiting.push_back(door);
        joins.changed.notify_all();
        self.shared.wake();
        while state.flushed <= number && !state.over {
            state = joins.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let joins = &self.shared.joins;
        joins.lock().open.retain(|join| join.number != self.number);
        joins.changed.notify_all();
    }
}

//! The ports in one process's memory, for tests: what the Postgres log answers, without a database.
//!
//! One mutex stands for the commit: every call takes it once and is done or refused as a whole. Time comes from a clock that a test can
//! move, so a lease runs out without anybody sleeping.

mod claim;
mod driver;
mod ids;
mod intake;
mod queue;
mod reader;
mod state;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use state::State;

/// Milliseconds since the epoch.
pub type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

pub struct Memory {
    state: Mutex<State>,
    clock: Clock,
    /// How far the clock was moved ahead.
    ahead: AtomicI64,
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Memory {
    pub fn new() -> Self {
        Self::with_clock(Arc::new(|| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
        }))
    }

    pub fn with_clock(clock: Clock) -> Self {
        Self { state: Mutex::default(), clock, ahead: AtomicI64::new(0) }
    }

    /// Moves the clock ahead.
    pub fn advance(&self, ms: i64) {
        self.ahead.fetch_add(ms, Ordering::SeqCst);
    }

    pub fn now(&self) -> i64 {
        (self.clock)() + self.ahead.load(Ordering::SeqCst)
    }

    /// A test that panicked inside a call poisons the lock; the others still want to read what they see.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

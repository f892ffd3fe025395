//! The tail: how viewers see a run's frames as they are committed.
//!
//! One task hears of all runs that this process tails. An event that a signal brings and that has a run's next frame it takes as it is; for all else it asks
//! the log, for all runs in one query: every tick, and at once when a signal tells of more than there is here. While signals come from other processes the
//! tick is long. What it gets it renders once and leaves in the run's ring. Viewers pull: each takes the frame after its last one from the ring or, where the ring no
//! longer or not exactly has it, from the log. So nothing is queued for anybody, a slow viewer costs what it holds in its hands, and what a viewer gets
//! is the log in order whatever signals say.

mod ring;
mod task;
mod view;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use adapters::metrics::Metrics;
use adapters::{Following, Reader, Signals};
use runs::Recorded;
use tokio::sync::{Notify, watch};
use uuid::Uuid;

use crate::render::{Chunk, Identity};
use ring::Ring;
pub(crate) use view::{Step, View};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) tick: Duration,
    /// The tick while signals of other processes come here.
    pub(crate) floor: Duration,
    pub(crate) ring_bytes: usize,
    /// A viewer that hears nothing for so long looks whether its run is still there.
    pub(crate) silence: Duration,
}

/// All runs that this process tails, and the task that does it.
pub(crate) struct Tails {
    shared: Arc<Shared>,
    task: tokio::task::AbortHandle,
}

struct Shared {
    reader: Arc<dyn Reader>,
    signals: Arc<dyn Signals>,
    metrics: Arc<Metrics>,
    settings: Settings,
    /// A run is tailed as long as somebody holds it; here nobody does.
    runs: Mutex<HashMap<Uuid, Weak<Tailed>>>,
    /// There is one more run to tail.
    grown: Notify,
}

/// A run that is tailed.
pub(super) struct Tailed {
    identity: Arc<Identity>,
    ring: Mutex<Ring>,
    head: watch::Sender<Head>,
    _following: Following,
}

/// What is known to be in the log: the frames before `next`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    next: u32,
    ended: bool,
}

/// A hold on a tailed run.
pub(crate) struct Feed {
    tailed: Arc<Tailed>,
    head: watch::Receiver<Head>,
}

impl Tails {
    pub(crate) fn start(reader: Arc<dyn Reader>, signals: Arc<dyn Signals>, metrics: Arc<Metrics>, settings: Settings) -> Self {
        let shared = Arc::new(Shared { reader, signals, metrics, settings, runs: Mutex::default(), grown: Notify::new() });
        let task = tokio::spawn(task::run(shared.clone())).abort_handle();
        Self { shared, task }
    }

    /// A viewer of a run from frame `next` on.
    pub(crate) fn view(&self, identity: Arc<Identity>, next: u32) -> View {
        View::new(self.shared.clone(), identity, next)
    }

    /// Tails a run of which the frames before `next` are in the log, and perhaps more.
    pub(crate) fn feed(&self, identity: &Arc<Identity>, next: u32) -> Feed {
        self.shared.feed(identity, next)
    }

    /// The index that the run's next frame will have, or has by now.
    pub(crate) async fn head(&self, run_id: Uuid) -> Result<u32, adapters::LogError> {
        self.shared.head(run_id).await
    }
}

impl Drop for Tails {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    fn feed(&self, identity: &Arc<Identity>, next: u32) -> Feed {
        let mut runs = lock(&self.runs);
        let tailed = runs.get(&identity.run_id).and_then(Weak::upgrade).unwrap_or_else(|| {
            let head = watch::Sender::new(Head { next, ended: false });
            let ring = Mutex::new(Ring::new(self.settings.ring_bytes));
            let tailed = Arc::new(Tailed { identity: identity.clone(), ring, head, _following: self.signals.follow_run(identity.run_id, next) });
            runs.insert(identity.run_id, Arc::downgrade(&tailed));
            self.grown.notify_one();
            tailed
        });
        let head = tailed.head.subscribe();
        Feed { tailed, head }
    }

    fn one(&self, run_id: Uuid) -> Option<Arc<Tailed>> {
        lock(&self.runs).get(&run_id).and_then(Weak::upgrade)
    }

    /// Those that are still held and have not ended, each with the index it needs next.
    fn tailed(&self) -> HashMap<Uuid, Arc<Tailed>> {
        let mut runs = lock(&self.runs);
        runs.retain(|_, tailed| tailed.upgrade().is_some_and(|tailed| !tailed.head.borrow().ended));
        runs.iter().filter_map(|(id, tailed)| Some((*id, tailed.upgrade()?))).collect()
    }

    /// By halving: a few dozen look-ups, for the rare viewer that claims to have seen what is not there.
    async fn head(&self, run_id: Uuid) -> Result<u32, adapters::LogError> {
        let (mut there, mut beyond) = (0, INDEX_END);
        while there < beyond {
            let middle = there + (beyond - there) / 2;
            match self.reader.frames(run_id, middle, 1).await?.is_empty() {
                true => beyond = middle,
                false => there = middle + 1,
            }
        }
        Ok(there)
    }
}

/// No run comes near it; Postgres' own integers end here.
pub(crate) const INDEX_END: u32 = i32::MAX as u32;

impl Tailed {
    /// Leaves what was committed in the ring, then says so.
    fn publish<'a>(&self, events: impl IntoIterator<Item = &'a Recorded>) {
        for recorded in events {
            let Some(chunk) = self.identity.chunk([recorded], self.head.borrow().next) else { continue };
            let head = Head { next: chunk.next, ended: chunk.terminal };
            lock(&self.ring).push(chunk);
            self.head.send_replace(head);
        }
    }
}

impl Feed {
    fn get(&self, index: u32) -> Option<Chunk> {
        lock(&self.tailed.ring).get(index)
    }

    /// Waits for the run's end. It must not have ended before this feed was taken.
    pub(crate) async fn ended(&mut self) {
        // The sender is in `tailed`, which is held here.
        let _ = self.head.wait_for(|head| head.ended).await;
    }
}

/// What these locks guard is whole after every step, so one that a panic left behind is still good.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

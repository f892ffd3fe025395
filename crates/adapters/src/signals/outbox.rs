//! What waits to be carried: bounded, and dropped rather than waited for.

use std::collections::{HashMap, HashSet};

use tokio::sync::{mpsc, oneshot};
use tracing::debug;
use uuid::Uuid;

use super::{Advance, Signal};

/// Signals that wait at most. Events of output are small here (`CARRIED`), so this is some mebibytes at the worst.
const WAITING: usize = 512;
/// So many are carried at once.
const TOGETHER: usize = 256;

#[derive(Debug)]
pub(super) enum Out {
    Signal(Signal),
    Renew(Vec<Uuid>),
    Settle(oneshot::Sender<()>),
}

/// The carrier's end.
#[derive(Debug)]
pub(crate) struct Outbox(mpsc::Receiver<Out>);

/// What is carried at once, each thing once.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// In order; one without an event gives way to the next of its run.
    pub(crate) advances: Vec<Advance>,
    pub(crate) cancels: HashSet<Uuid>,
    pub(crate) work: bool,
    pub(crate) renewed: HashSet<Uuid>,
    /// Told when the batch is done with.
    settled: Vec<oneshot::Sender<()>>,
}

pub(super) fn outbox() -> (mpsc::Sender<Out>, Outbox) {
    let (sender, receiver) = mpsc::channel(WAITING);
    (sender, Outbox(receiver))
}

pub(super) fn put(sender: &mpsc::Sender<Out>, out: Out) {
    if sender.try_send(out).is_err() {
        debug!("signals are not carried: too many wait");
    }
}

impl Outbox {
    /// The next things to carry, as soon as there is one; `None` when nobody sends any more.
    pub(crate) async fn next(&mut self) -> Option<Batch> {
        let mut waiting = Vec::with_capacity(16);
        if self.0.recv_many(&mut waiting, TOGETHER).await == 0 {
            return None;
        }
        let mut batch = Batch::default();
        waiting.into_iter().for_each(|out| batch.take(out));
        Some(batch)
    }

    /// Adds what came meanwhile.
    pub(crate) fn more(&mut self, batch: &mut Batch) {
        while let Ok(out) = self.0.try_recv() {
            batch.take(out);
        }
    }
}

impl Batch {
    fn take(&mut self, out: Out) {
        match out {
            Out::Signal(Signal::Advanced(advance)) => match self.advances.last_mut() {
                Some(last) if last.run_id == advance.run_id && last.event.is_none() && last.next.is_some() && advance.next.is_some() => {
                    *last = advance
                }
                _ => self.advances.push(advance),
            },
            Out::Signal(Signal::Cancel(run_id)) => drop(self.cancels.insert(run_id)),
            Out::Signal(Signal::Work) => self.work = true,
            Out::Renew(runs) => self.renewed.extend(runs),
            Out::Settle(done) => self.settled.push(done),
        }
    }

    /// Of each run the furthest it is said to be, where `None` is further than all: for a carrier that takes no events.
    pub(crate) fn furthest(&self) -> HashMap<Uuid, Option<u32>> {
        let mut furthest = HashMap::new();
        for advance in &self.advances {
            let known = furthest.entry(advance.run_id).or_insert(advance.next);
            *known = known.zip(advance.next).map(|(known, next)| known.max(next));
        }
        furthest
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.advances.is_empty() && self.cancels.is_empty() && !self.work && self.renewed.is_empty()
    }

    /// It was carried or dropped.
    pub(crate) fn settle(self) {
        // Whoever no longer waits does not mind.
        for done in self.settled {
            let _ = done.send(());
        }
    }
}

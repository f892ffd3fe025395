//! An attachment to a sandbox: its journal's records, and the way to give it orders.

use std::collections::VecDeque;
use std::time::Duration;

use runner::door::Order;
use runner::journal::Record;
use tokio::sync::mpsc;

use super::SandboxError;

/// One order with the bytes that belong to it (those of an inbox line).
pub type Sent = (Order, Vec<u8>);

/// A batch of records, each with the journal offset of its end.
pub type Batch = Result<Vec<(Record, u64)>, SandboxError>;

/// What [`super::Sandboxes::attach`] gives.
#[derive(Debug)]
pub struct Attached {
    /// The journal's records.
    pub records: Records,
    /// The way to the runner. Dropping both halves ends the attachment, never the sandbox.
    pub orders: Orders,
}

/// The journal's records, in order. What waits here is bounded in bytes: a reader that falls behind stops the reading of the socket.
#[derive(Debug)]
pub struct Records {
    batches: mpsc::Receiver<Batch>,
    ready: VecDeque<(Record, u64)>,
}

impl Records {
    /// Records that come from a channel of batches. The channel should hold very few.
    pub fn new(batches: mpsc::Receiver<Batch>) -> Self {
        Self { batches, ready: VecDeque::new() }
    }

    /// The next record and the offset of its end; `None` after the exit record, or where a dead runner stopped writing. An error is the last item: the
    /// connection is lost (attach again), or the journal is corrupt. Safe to cancel.
    pub async fn recv(&mut self) -> Option<Result<(Record, u64), SandboxError>> {
        loop {
            if let Some(record) = self.ready.pop_front() {
                return Some(Ok(record));
            }
            match self.batches.recv().await? {
                Ok(batch) => self.ready.extend(batch),
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// A record that is there already, if there is one: to make batches without waiting.
    pub fn ready(&mut self) -> Option<(Record, u64)> {
        self.ready.pop_front()
    }
}

/// The way to give orders to a runner. They are in order and not answered: what they do is seen in the journal. An order to a runner that is gone is
/// lost without an error; the end of the records tells.
#[derive(Clone, Debug)]
pub struct Orders {
    to: Option<mpsc::Sender<Sent>>,
}

impl Orders {
    /// Orders into a channel.
    pub fn new(to: mpsc::Sender<Sent>) -> Self {
        Self { to: Some(to) }
    }

    /// For a runner that is gone.
    pub fn nowhere() -> Self {
        Self { to: None }
    }

    /// Line `n` (from 0, without gaps; a repeat is ignored) for the harness's standard input, as it is: no newline is added. `end` closes it afterwards.
    pub async fn inbox(&self, n: u64, line: Vec<u8>, end: bool) {
        let len = line.len() as u64;
        self.send(Order::Inbox { n, len, end }, line).await;
    }

    /// The journal before `offset` (the end of a record) is in the log: it may go.
    pub async fn committed(&self, offset: u64) {
        self.send(Order::Committed { offset }, Vec::new()).await;
    }

    /// A visit that counts for the dead-man limit.
    pub async fn alive(&self) {
        self.send(Order::Alive, Vec::new()).await;
    }

    /// Kill the harness: SIGINT, `grace`, SIGKILL to everything. The exit record then says `killed:{reason}`.
    pub async fn kill(&self, reason: &str, grace: Duration) {
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        self.send(Order::Kill { reason: reason.to_owned(), grace_ms }, Vec::new()).await;
    }

    async fn send(&self, order: Order, bytes: Vec<u8>) {
        if let Some(to) = &self.to {
            // A closed channel is a runner that is gone.
            let _ = to.send((order, bytes)).await;
        }
    }
}

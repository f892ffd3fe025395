//! From the journal to the log: records become frames, frames become events, and an event holds the journal's offset, so that each record is in the
//! log exactly once.

use std::time::Duration;

use runs::{Event, Frame, Output, Run};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::finish::broken;
use super::ledger::{LetGo, Written};
use super::turn::{Pause, Turn};
use crate::harness::{ANSWERED, Ending, Reading};
use crate::lease::Word;
use crate::sandbox::{Attached, Body, Orders, Record, Records, SandboxError};

/// A batch is written when it is this old or this large.
const AGE: Duration = Duration::from_millis(15);
const SIZE: u64 = 64 * 1024;
/// Journal that made no frame is committed too, before the runner stops reading for want of it.
const SILENT: u64 = 1024 * 1024;
/// How long after its time limit a turn may still be followed.
const OVERDUE: Duration = Duration::from_secs(60);

/// How long a harness may be silent after its answer without ending. What it waits for then is nobody's business any more.
const SILENCE: Duration = Duration::from_secs(20);

pub(super) enum Followed {
    Ended(Ending),
    /// The records ended without an exit record: the connection is lost, or the runner.
    NoExit,
    /// There is something for the loop to decide.
    Interrupted,
}

/// What was read and is not in the log yet.
struct Batch {
    frames: Vec<Frame>,
    bytes: u64,
    /// Where a commit may end, and where the journal was read to: a line in pieces is committed whole.
    journal: u64,
    read: u64,
    due: Instant,
}

fn not_attached(error: &SandboxError) -> Result<Followed, LetGo> {
    match error {
        SandboxError::Fenced { .. } => Err(LetGo::NotMine),
        SandboxError::Corrupt(_) => Ok(Followed::Ended(broken(error))),
        _ => Ok(Followed::NoExit),
    }
}

/// Standard input, closed after its last piece. A repeat of what the runner has already is harmless.
async fn tell(orders: &Orders, input: Vec<Vec<u8>>) {
    let last = input.len().saturating_sub(1);
    for (n, piece) in input.into_iter().enumerate() {
        orders.inbox(n as u64, piece, n == last).await;
    }
}

/// A journal that is being followed.
struct Following {
    records: Records,
    orders: Orders,
    reading: Reading,
    batch: Batch,
    /// The time limit is the runner's own. One that stands still is passed by.
    overdue: Instant,
    silence: Instant,
    /// Heartbeats that the runner has heard of.
    beats: u64,
    killed: bool,
}

/// What happens next, whatever is first.
enum Heard {
    /// False: nobody is left who could say something.
    Word(bool),
    Overdue,
    Due,
    Silence,
    Record(Option<Result<(Record, u64), SandboxError>>),
}

impl Following {
    fn new(run: &Run, Attached { records, orders }: Attached, beats: u64) -> Self {
        let now = Instant::now();
        Self {
            records,
            orders,
            reading: Reading::resume(&run.submitted, &run.parser, run.started_at),
            batch: Batch { frames: Vec::new(), bytes: 0, journal: run.journal, read: run.journal, due: now },
            overdue: now + Duration::from_millis(run.submitted.agent.limits.time) + OVERDUE,
            silence: now + SILENCE,
            beats,
            killed: false,
        }
    }

    async fn hear(&mut self, word: &mut watch::Receiver<Word>) -> Heard {
        tokio::select! {
            biased;
            changed = word.changed() => Heard::Word(changed.is_ok()),
            () = sleep_until(self.overdue) => Heard::Overdue,
            () = sleep_until(self.batch.due), if !self.batch.frames.is_empty() => Heard::Due,
            () = sleep_until(self.silence), if self.reading.has_answered() && !self.killed => Heard::Silence,
            record = self.records.recv() => Heard::Record(record),
        }
    }

    async fn kill(&mut self, reason: &str) {
        self.killed = true;
        self.orders.kill(reason, Duration::ZERO).await;
    }
}

impl Turn<'_> {
    pub(super) async fn follow(&mut self) -> Result<Followed, LetGo> {
        let Some(place) = self.place() else { return Ok(Followed::Interrupted) };
        let input = self.input().await?;
        let attached = match self.sandboxes.attach(&place, self.claim.epoch, self.ledger.run.journal).await {
            Ok(attached) => attached,
            Err(error) => return not_attached(&error),
        };
        let beats = self.word.borrow().beats;
        let mut following = Following::new(&self.ledger.run, attached, beats);
        tell(&following.orders, input).await;
        following.orders.alive().await;
        loop {
            if let Some(word) = following.reading.stop().filter(|_| !following.killed) {
                following.kill(word).await;
            }
            let followed = match following.hear(&mut self.word).await {
                Heard::Word(false) => return Err(LetGo::NotMine),
                Heard::Word(true) => self.heed(&mut following).await?,
                Heard::Overdue => {
                    self.flush(&mut following).await?;
                    self.stop("time_limit", &mut Pause::default()).await?;
                    return Ok(Followed::Interrupted);
                }
                Heard::Due => {
                    self.flush(&mut following).await?;
                    None
                }
                Heard::Silence => {
                    following.kill(ANSWERED).await;
                    None
                }
                Heard::Record(record) => self.read(record, &mut following).await?,
            };
            if let Some(followed) = followed {
                return Ok(followed);
            }
            // Somebody's wish came to light by a collision.
            if self.ledger.run.cancel_requested {
                self.flush(&mut following).await?;
                return Ok(Followed::Interrupted);
            }
        }
    }

    /// What the worker says of the lease.
    async fn heed(&mut self, following: &mut Following) -> Result<Option<Followed>, LetGo> {
        let word = *self.word.borrow_and_update();
        if word.lost {
            return Err(LetGo::NotMine);
        }
        if word.beats != following.beats {
            following.beats = word.beats;
            following.orders.alive().await;
        }
        self.follow_hints().await?;
        if word.stop || self.ledger.run.cancel_requested {
            self.flush(following).await?;
            return Ok(Some(Followed::Interrupted));
        }
        Ok(None)
    }

    async fn read(&mut self, record: Option<Result<(Record, u64), SandboxError>>, following: &mut Following) -> Result<Option<Followed>, LetGo> {
        match record {
            None | Some(Err(SandboxError::Unreachable(_) | SandboxError::Io { .. })) => {
                self.flush(following).await?;
                Ok(Some(Followed::NoExit))
            }
            Some(Err(SandboxError::Fenced { .. })) => Err(LetGo::NotMine),
            Some(Err(error)) => Ok(Some(Followed::Ended(broken(&error)))),
            Some(Ok((record, end))) => {
                following.silence = Instant::now() + SILENCE;
                Ok(self.take(record, end, following).await?.map(Followed::Ended))
            }
        }
    }

    async fn take(&mut self, record: Record, end: u64, following: &mut Following) -> Result<Option<Ending>, LetGo> {
        let Following { reading, batch, .. } = following;
        let frames = reading.read(&record);
        if batch.frames.is_empty() {
            // The first of a batch waits only as long as the one before it is young.
            batch.due = batch.due.max(Instant::now());
        }
        batch.bytes += frames.iter().map(Frame::bytes).sum::<u64>();
        batch.frames.extend(frames);
        match record.body {
            Body::Started => self.started(end).await?,
            Body::Exit(exit) => {
                // Never committed: whoever comes next has to find it. All before it is, also a line that it cut off.
                batch.journal = batch.read;
                self.flush(following).await?;
                return Ok(Some(following.reading.judge(&exit, record.at_ms, &self.ledger.run.submitted.agent.limits)));
            }
            _ => {}
        }
        batch.read = end;
        if reading.is_whole() {
            batch.journal = end;
        }
        if batch.bytes >= SIZE || batch.journal - self.ledger.run.journal >= SILENT {
            self.flush(following).await?;
        }
        Ok(None)
    }

    /// The harness runs. The log may have it already: a repeat of the journal's start, or one's own lost answer.
    async fn started(&mut self, journal: u64) -> Result<(), LetGo> {
        while self.ledger.run.journal < journal {
            let (attempt, model) = (self.ledger.run.attempt, self.ledger.run.submitted.agent.model.clone());
            self.ledger.append(Event::SandboxStarted { attempt, model, journal }).await?;
        }
        Ok(())
    }

    /// Writes the batch. A collision that was one's own lost answer shows in the log's journal offset and parser; after any other it is written again
    /// behind it.
    async fn flush(&mut self, following: &mut Following) -> Result<(), LetGo> {
        let Following { reading, batch, orders, .. } = following;
        if !batch.frames.is_empty() || batch.journal - self.ledger.run.journal >= SILENT {
            let output = Output { frames: std::mem::take(&mut batch.frames), journal: batch.journal, parser: reading.state() };
            let stands = |run: &Run| run.journal == output.journal && run.parser == output.parser;
            while self.ledger.append(Event::Output(output.clone())).await? == Written::DecideAgain && !stands(&self.ledger.run) {}
            orders.committed(batch.journal).await;
        }
        (batch.bytes, batch.due) = (0, Instant::now() + AGE);
        Ok(())
    }
}

//! From the journal to the log: records become frames, frames become events, and an event holds the journal's offset, so that each record is in the
//! log exactly once.

use std::time::Duration;

use runs::{Event, Frame, Output, Run};
use tokio::time::{Instant, sleep_until};

use super::finish::broken;
use super::ledger::{LetGo, Written};
use super::turn::{Pause, Turn};
use crate::harness::{ANSWERED, Ending, Reading};
use crate::sandbox::{Attached, Body, Orders, Record, SandboxError};

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

impl Turn<'_> {
    pub(super) async fn follow(&mut self) -> Result<Followed, LetGo> {
        let Some(place) = self.place() else { return Ok(Followed::Interrupted) };
        let input = self.input().await?;
        let Attached { mut records, orders } = match self.sandboxes.attach(&place, self.claim.epoch, self.ledger.run.journal).await {
            Ok(attached) => attached,
            Err(error) => return not_attached(&error),
        };
        let run = &self.ledger.run;
        let mut reading = Reading::resume(&run.submitted, &run.parser, run.started_at);
        let mut batch = Batch { frames: Vec::new(), bytes: 0, journal: run.journal, read: run.journal, due: Instant::now() };
        tell(&orders, input).await;
        orders.alive().await;
        // The time limit is the runner's own. One that stands still is passed by.
        let overdue = Instant::now() + Duration::from_millis(self.ledger.run.submitted.agent.limits.time) + OVERDUE;
        let (mut beats, mut killed, mut silence) = (self.word.borrow().beats, false, Instant::now() + SILENCE);
        loop {
            if let Some(word) = reading.stop().filter(|_| !killed) {
                killed = true;
                orders.kill(word, Duration::ZERO).await;
            }
            tokio::select! {
                biased;
                changed = self.word.changed() => {
                    let word = *self.word.borrow_and_update();
                    if changed.is_err() || word.lost {
                        return Err(LetGo::NotMine);
                    }
                    if word.beats != beats {
                        beats = word.beats;
                        orders.alive().await;
                    }
                    self.follow_hints().await?;
                    if word.stop || self.ledger.run.cancel_requested {
                        return self.leave(batch, &reading, &orders, Followed::Interrupted).await;
                    }
                }
                () = sleep_until(overdue) => {
                    self.flush(&mut batch, &reading, &orders).await?;
                    self.stop("time_limit", &mut Pause::default()).await?;
                    return Ok(Followed::Interrupted);
                }
                () = sleep_until(batch.due), if !batch.frames.is_empty() => self.flush(&mut batch, &reading, &orders).await?,
                () = sleep_until(silence), if reading.has_answered() && !killed => {
                    killed = true;
                    orders.kill(ANSWERED, Duration::ZERO).await;
                }
                record = records.recv() => match record {
                    None | Some(Err(SandboxError::Unreachable(_) | SandboxError::Io { .. })) => {
                        return self.leave(batch, &reading, &orders, Followed::NoExit).await;
                    }
                    Some(Err(SandboxError::Fenced { .. })) => return Err(LetGo::NotMine),
                    Some(Err(error)) => return Ok(Followed::Ended(broken(&error))),
                    Some(Ok((record, end))) => {
                        silence = Instant::now() + SILENCE;
                        if let Some(ending) = self.take(record, end, &mut batch, &mut reading, &orders).await? {
                            return Ok(Followed::Ended(ending));
                        }
                    }
                },
            }
            // Somebody's wish came to light by a collision.
            if self.ledger.run.cancel_requested {
                return self.leave(batch, &reading, &orders, Followed::Interrupted).await;
            }
        }
    }

    /// With all in the log that was read.
    async fn leave(&mut self, mut batch: Batch, reading: &Reading, orders: &Orders, how: Followed) -> Result<Followed, LetGo> {
        self.flush(&mut batch, reading, orders).await?;
        Ok(how)
    }

    async fn take(&mut self, record: Record, end: u64, batch: &mut Batch, reading: &mut Reading, orders: &Orders) -> Result<Option<Ending>, LetGo> {
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
                self.flush(batch, reading, orders).await?;
                return Ok(Some(reading.judge(&exit, record.at_ms, &self.ledger.run.submitted.agent.limits)));
            }
            _ => {}
        }
        batch.read = end;
        if reading.is_whole() {
            batch.journal = end;
        }
        if batch.bytes >= SIZE || batch.journal - self.ledger.run.journal >= SILENT {
            self.flush(batch, reading, orders).await?;
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
    async fn flush(&mut self, batch: &mut Batch, reading: &Reading, orders: &Orders) -> Result<(), LetGo> {
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

//! A run's log as its driver sees it: the fold so far, and the appends that follow from it.

use std::sync::Arc;
use std::time::Duration;

use adapters::metrics::Metrics;
use adapters::{AppendError, Claim, Driver, Finish, Holding, LogError, Place, Ring, Signal, Signals};
use runs::decide::Checkpoint;
use runs::frame::count;
use runs::{Content, Event, Frame, Recorded, Run, Tools};
use tracing::{info, warn};
use uuid::Uuid;

use crate::Parts;

/// Events are read in pages of so many: an event of output is at most half a mebibyte.
const PAGE: u32 = 64;

/// Why a driver lets go of its run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LetGo {
    /// It has ended, or is gone.
    #[error("the run is over")]
    Over,
    /// The log's last claim is another's.
    #[error("the run is held by another claim")]
    NotMine,
    #[error("the log holds what this worker cannot fold")]
    Unreadable(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// What came of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    Yes,
    /// Somebody else wrote: the tail is folded, and the decision has to be made again. It may have been one's own lost answer.
    DecideAgain,
}

pub(crate) struct Ledger {
    driver: Arc<dyn Driver>,
    signals: Arc<dyn Signals>,
    ring: Arc<dyn Ring>,
    metrics: Arc<Metrics>,
    pub(crate) run_id: Uuid,
    pub(crate) holding: Holding,
    pub(crate) run: Run,
    /// What the current attempt said, bounded.
    pub(crate) content: Content,
    /// And the tools that it called, bounded too.
    pub(crate) tools: Tools,
    /// Of the last event that was folded.
    last_at: i64,
}

impl Ledger {
    /// Folds the log from its start.
    pub(crate) async fn open(parts: &Parts, claim: &Claim) -> Result<Self, LetGo> {
        let (driver, signals, ring) = (Arc::clone(&parts.driver), Arc::clone(&parts.signals), Arc::clone(&parts.ring));
        let mut log = patiently("read the log", || driver.events(claim.run_id, 0, PAGE)).await?.into_iter();
        let first = log.next().ok_or(LetGo::Over)?;
        let run = Run::start(&first).map_err(|error| LetGo::Unreadable(error.into()))?;
        let holding = Holding { session: claim.session, claim: claim.claim };
        let metrics = Arc::clone(&parts.metrics);
        let (content, tools) = (Content::default(), Tools::default());
        let mut ledger = Self { driver, signals, ring, metrics, run_id: claim.run_id, holding, run, content, tools, last_at: first.at };
        let whole = (log.len() as u32) < PAGE - 1;
        log.try_for_each(|recorded| ledger.fold(&recorded))?;
        if whole {
            ledger.holds()?;
        } else {
            ledger.refresh().await?;
        }
        if ledger.run.seq == 1 {
            // Nothing but the first claim has happened to it.
            parts.metrics.claimed(first.at, ledger.last_at);
        }
        Ok(ledger)
    }

    /// Folds what others wrote since, and sees whether the run is still this claim's.
    pub(crate) async fn refresh(&mut self) -> Result<(), LetGo> {
        loop {
            let tail = patiently("read the log", || self.driver.events(self.run_id, self.run.seq + 1, PAGE)).await?;
            let whole = (tail.len() as u32) < PAGE;
            for recorded in tail {
                self.fold(&recorded)?;
            }
            if whole {
                return self.holds();
            }
        }
    }

    /// Whether the run goes on, and is this claim's.
    fn holds(&self) -> Result<(), LetGo> {
        if self.run.phase.has_ended() {
            Err(LetGo::Over)
        } else if !self.run.is_held_by(self.holding.claim) {
            Err(LetGo::NotMine)
        } else {
            Ok(())
        }
    }

    fn fold(&mut self, recorded: &Recorded) -> Result<(), LetGo> {
        match &recorded.event {
            Event::SandboxRequested(_) => {
                self.content.clear();
                self.tools.clear();
            }
            Event::Output(output) => output.frames.iter().for_each(|frame| {
                if let Frame::RunContent { content: Some(text), .. } = frame {
                    self.content.push(text);
                }
                self.tools.see(frame);
            }),
            _ => {}
        }
        self.last_at = recorded.at;
        self.run = self.run.clone().apply(recorded).map_err(|error| LetGo::Unreadable(error.into()))?;
        Ok(())
    }

    /// Appends one event after the last one that was seen.
    pub(crate) async fn append(&mut self, event: Event) -> Result<Written, LetGo> {
        let (driver, run_id, seq, index) = (Arc::clone(&self.driver), self.run_id, self.run.seq + 1, self.run.next_index);
        let answer = tenaciously("append", || driver.append(run_id, seq, index, &event)).await;
        self.written(answer, event).await
    }

    /// The same, of an event that says where the sandbox is.
    pub(crate) async fn place(&mut self, event: Event, place: Place) -> Result<Written, LetGo> {
        let (driver, run_id, seq, index) = (Arc::clone(&self.driver), self.run_id, self.run.seq + 1, self.run.next_index);
        let holding = self.holding;
        let answer = tenaciously("append", || driver.place(run_id, seq, index, &event, holding, &place)).await;
        self.written(answer, event).await
    }

    async fn written(&mut self, answer: Result<i64, AppendError>, event: Event) -> Result<Written, LetGo> {
        match answer {
            Ok(at) => {
                let recorded = Arc::new(Recorded { seq: self.run.seq + 1, first_index: self.run.next_index, at, event });
                self.fold(&recorded)?;
                // Viewers wait for frames.
                if recorded.next_index() > recorded.first_index {
                    self.signals.send(Signal::committed(self.run_id, recorded));
                }
                Ok(Written::Yes)
            }
            Err(error) => self.refused(error).await,
        }
    }

    /// Ends the run: result, checkpoint, terminal event and the lease's release in one call.
    pub(crate) async fn finish(&mut self, events: Vec<Event>, checkpoint: Option<Checkpoint>) -> Result<Written, LetGo> {
        let driver = Arc::clone(&self.driver);
        let finish = Finish {
            run_id: self.run_id,
            session: self.holding.session,
            claim: self.holding.claim,
            seq: self.run.seq + 1,
            first_index: self.run.next_index,
            events,
            conversation: checkpoint.as_ref().and_then(|checkpoint| checkpoint.conversation.clone()),
            checkpoint: checkpoint.map(|checkpoint| checkpoint.id),
        };
        let answer = tenaciously("finish", || driver.finish(finish.clone())).await;
        match answer {
            Ok(()) => {
                let how = finish.events.last().map_or("", Event::kind);
                info!(run.id = %self.run_id, attempt = self.run.attempt, how, "ended");
                if let Some(status) = finish.events.last().and_then(runs::terminal_status) {
                    self.metrics.ended(status);
                }
                let frames: u32 = finish.events.iter().map(count).sum();
                self.signals.send(Signal::up_to(self.run_id, finish.first_index + frames));
                Ok(Written::Yes)
            }
            Err(error) => self.refused(error).await,
        }
    }

    /// Frees the lease for the next worker. What goes wrong here costs a lease's time and nothing else.
    pub(crate) async fn hand_over(&mut self, reason: &str) {
        let (seq, index) = (self.run.seq + 1, self.run.next_index);
        if let Err(error) = self.driver.hand_over(self.run_id, seq, index, reason, self.holding).await {
            warn!(run.id = %self.run_id, error = &error as &dyn std::error::Error, "hand-over failed: the lease has to run out");
        }
        self.signals.send(Signal::Work);
        self.ring.ring(self.holding.session).await;
    }

    async fn refused(&mut self, error: AppendError) -> Result<Written, LetGo> {
        match error {
            AppendError::Taken(_) => self.refresh().await.map(|()| Written::DecideAgain),
            AppendError::Gone => Err(LetGo::Over),
            AppendError::Log(error) => Err(LetGo::Unreadable(error.into())),
        }
    }
}

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// A log that cannot be reached is waited for: the sandbox goes on, its journal keeps what it says, and the heartbeat tells when the lease is lost.
async fn patiently<T, F: Future<Output = Result<T, LogError>>>(what: &str, mut call: impl FnMut() -> F) -> Result<T, LetGo> {
    let mut pause = FIRST_PAUSE;
    loop {
        match call().await {
            Err(error @ LogError::Unreachable(_)) => wait(what, &error, &mut pause).await,
            other => return other.map_err(|error| LetGo::Unreadable(error.into())),
        }
    }
}

/// The same for a write. It may have been done although no answer came: the seq tells.
async fn tenaciously<T, F: Future<Output = Result<T, AppendError>>>(what: &str, mut call: impl FnMut() -> F) -> Result<T, AppendError> {
    let mut pause = FIRST_PAUSE;
    loop {
        match call().await {
            Err(AppendError::Log(error @ LogError::Unreachable(_))) => wait(what, &error, &mut pause).await,
            other => return other,
        }
    }
}

async fn wait(what: &str, error: &LogError, pause: &mut Duration) {
    warn!(error = error as &dyn std::error::Error, what, "the log is away; trying again");
    tokio::time::sleep(*pause).await;
    *pause = (*pause * 2).min(LONGEST_PAUSE);
}

//! The loop: what the log says and what the sandbox shows give one action, until there is none.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use adapters::{Claim, Place as At};
use runs::{Action, Event, FailureClass, Requested, Seen, next};
use tokio::sync::watch;
use tracing::{debug, info, warn};

use super::follow::Followed;
use super::give_up::give_up;
use super::ledger::{Ledger, LetGo, Written};
use crate::Parts;
use crate::harness::CANCEL;
use crate::lease::Word;
use crate::sandbox::{Place, SandboxError, Sandboxes};

/// So many claims in a row whose holders did nothing end as a failed attempt.
const IDLE_CLAIMS: u32 = 5;

/// How a driver came to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The run has ended: the session's next run may be claimed.
    Ended,
    HandedOver,
    LetGo,
}

pub(super) struct Turn<'a> {
    pub(super) parts: &'a Parts,
    pub(super) claim: &'a Claim,
    pub(super) sandboxes: Arc<dyn Sandboxes>,
    pub(super) ledger: Ledger,
    pub(super) word: watch::Receiver<Word>,
    /// Hints that were followed.
    hints: u64,
    /// What the step just taken says of the sandbox, so that the next one need not look.
    pub(super) known: Option<Seen>,
}

/// Drives a claimed run.
pub(crate) async fn drive(parts: &Parts, claim: &Claim, word: watch::Receiver<Word>) -> Outcome {
    let Some(sandboxes) = parts.sandboxes.iter().find(|sandboxes| sandboxes.host() == claim.host) else { return Outcome::LetGo };
    let outcome = match Turn::open(parts, claim, sandboxes, word).await {
        Ok(mut turn) => turn.run().await,
        Err(letting_go) => Err(letting_go),
    };
    match outcome {
        Ok(outcome) => outcome,
        Err(LetGo::Over) => Outcome::Ended,
        Err(LetGo::NotMine) => {
            info!(run.id = %claim.run_id, "lease lost");
            Outcome::LetGo
        }
        Err(cause @ LetGo::Unreadable(_)) if claim.idle_claims >= IDLE_CLAIMS => {
            if give_up(parts, claim, sandboxes.as_ref(), &cause).await {
                Outcome::Ended
            } else {
                Outcome::LetGo
            }
        }
        Err(error @ LetGo::Unreadable(_)) => {
            // The lease runs out by itself; meanwhile this run holds up no other.
            warn!(run.id = %claim.run_id, error = &error as &dyn std::error::Error, "run given up for now");
            Outcome::LetGo
        }
    }
}

impl<'a> Turn<'a> {
    async fn open(parts: &'a Parts, claim: &'a Claim, sandboxes: &Arc<dyn Sandboxes>, word: watch::Receiver<Word>) -> Result<Self, LetGo> {
        let ledger = Ledger::open(parts, claim).await?;
        Ok(Self { parts, claim, sandboxes: Arc::clone(sandboxes), ledger, word, hints: 0, known: None })
    }

    async fn run(&mut self) -> Result<Outcome, LetGo> {
        if self.claim.idle_claims >= IDLE_CLAIMS {
            self.give_up_attempt().await?;
        }
        let (mut pause, mut silent) = (Pause::default(), None);
        loop {
            let word = *self.word.borrow_and_update();
            if word.lost {
                return Err(LetGo::NotMine);
            }
            if word.stop {
                self.ledger.hand_over("the worker stops").await;
                return Ok(Outcome::HandedOver);
            }
            self.follow_hints().await?;
            let seen = match self.look().await {
                Ok(seen) => {
                    silent = None;
                    seen
                }
                Err(SandboxError::Fenced { .. }) => return Err(LetGo::NotMine),
                Err(error) => {
                    warn!(run.id = %self.ledger.run_id, error = &error as &dyn std::error::Error, "cannot look at the sandbox; trying again");
                    let silent = silent.get_or_insert_with(Instant::now).elapsed();
                    self.unseen(silent, &mut pause).await?;
                    continue;
                }
            };
            let action = next(&self.ledger.run, seen, self.is_here(), now());
            debug!(run.id = %self.ledger.run_id, event.seq = self.ledger.run.seq, ?seen, ?action, "next");
            if self.act(action, seen, &mut pause).await? {
                self.clear_away().await;
                return Ok(Outcome::Ended);
            }
        }
    }

    /// Takes a step. Whether the turn is done.
    async fn act(&mut self, action: Action, seen: Seen, pause: &mut Pause) -> Result<bool, LetGo> {
        match action {
            Action::Request { attempt } => self.request(attempt).await.map(|()| false),
            Action::Create => self.create().await.map(|()| false),
            Action::Follow => match self.follow().await? {
                Followed::Ended(ending) => self.end(ending).await,
                Followed::NoExit if seen == Seen::Lost => self.fail(FailureClass::SandboxLost, "the sandbox is gone without an exit record").await,
                Followed::NoExit => {
                    pause.take().await;
                    Ok(false)
                }
                Followed::Interrupted => Ok(false),
            },
            Action::Stop => self.stop(CANCEL, pause).await.map(|()| false),
            Action::Cancel => self.cancelled().await,
            Action::Fail(class) => self.fail(class, lost(class)).await,
            Action::Wait { until } => {
                self.wait(until).await;
                Ok(false)
            }
            Action::Nothing => Err(LetGo::Over),
        }
    }

    /// Looks into the log when there is reason to.
    pub(super) async fn follow_hints(&mut self) -> Result<(), LetGo> {
        let hints = self.word.borrow().hints;
        if hints != self.hints {
            self.hints = hints;
            self.ledger.refresh().await?;
        }
        Ok(())
    }

    /// The place of the sandbox that the log names.
    pub(super) fn place(&self) -> Option<Place> {
        let sandbox = self.ledger.run.phase.sandbox()?;
        Some(Place { session: self.claim.session, name: sandbox.name.clone() })
    }

    fn is_here(&self) -> bool {
        self.ledger.run.phase.sandbox().is_some_and(|sandbox| sandbox.host == self.sandboxes.host())
    }

    async fn look(&mut self) -> Result<Seen, SandboxError> {
        if let Some(seen) = self.known.take() {
            return Ok(seen);
        }
        match self.place().filter(|_| self.is_here()) {
            Some(place) => self.sandboxes.look(&place, self.claim.epoch).await,
            None => Ok(Seen::Absent),
        }
    }

    /// A runner that is there and does not answer holds up its run only until the end is wished for, or until it has been silent for as long as a runner
    /// waits for its worker. Stopping goes past it, and the next look sees what is left.
    async fn unseen(&mut self, silent: Duration, pause: &mut Pause) -> Result<(), LetGo> {
        if self.ledger.run.cancel_requested || silent > self.parts.options.dead_man {
            self.stop(CANCEL, pause).await
        } else {
            pause.take().await;
            Ok(())
        }
    }

    async fn request(&mut self, attempt: u32) -> Result<(), LetGo> {
        let (name, host) = (format!("{}-{attempt}", self.ledger.run_id), self.sandboxes.host().to_owned());
        let place = At::At { host: host.clone(), sandbox: name.clone(), attempt };
        let written = self.ledger.place(Event::SandboxRequested(Requested { attempt, name, host }), place).await?;
        // Nobody but the holder makes it, and making it looks again.
        self.known = (written == Written::Yes).then_some(Seen::Absent);
        Ok(())
    }

    pub(super) async fn stop(&mut self, reason: &str, pause: &mut Pause) -> Result<(), LetGo> {
        let Some(place) = self.place() else { return Ok(()) };
        match self.sandboxes.stop(&place, self.claim.epoch, reason, self.parts.options.grace).await {
            Ok(()) => Ok(()),
            Err(SandboxError::Fenced { .. }) => Err(LetGo::NotMine),
            Err(error) => {
                warn!(run.id = %self.ledger.run_id, error = &error as &dyn std::error::Error, "cannot stop the sandbox; trying again");
                pause.take().await;
                Ok(())
            }
        }
    }

    async fn give_up_attempt(&mut self) -> Result<(), LetGo> {
        if self.is_here() {
            self.stop("workers_lost", &mut Pause::default()).await?;
        }
        self.fail(FailureClass::WorkersLost, lost(FailureClass::WorkersLost)).await.map(drop)
    }

    /// Until then, or until there is news.
    async fn wait(&mut self, until: i64) {
        let time = Duration::from_millis(u64::try_from(until - now()).unwrap_or(0));
        tokio::select! {
            () = tokio::time::sleep(time) => {}
            _ = self.word.changed() => {}
        }
    }

    /// Of a run that has ended nothing stays but what the log and the checkpoint have. What cannot be removed now, the sweep removes.
    async fn clear_away(&self) {
        let Some(place) = self.place().filter(|_| self.is_here()) else { return };
        let removed = match self.sandboxes.remove(&place, self.claim.epoch).await {
            // The session's next run is claimed already, maybe by another worker; this one has ended all the same.
            Err(SandboxError::Fenced { .. }) => self.sandboxes.sweep(&place).await,
            other => other,
        };
        if let Err(error) = removed {
            warn!(run.id = %self.ledger.run_id, error = &error as &dyn std::error::Error, "sandbox left to the sweep");
        }
    }

    /// Another attempt, or the run's end. Whether the turn is done.
    pub(super) async fn fail(&mut self, class: FailureClass, error: &str) -> Result<bool, LetGo> {
        let event = runs::decide::attempt_failed(&self.ledger.run, class, error, now());
        info!(run.id = %self.ledger.run_id, attempt = self.ledger.run.attempt, class = class.name(), error, "attempt failed");
        if let Event::AttemptFailed { retry_at, .. } = &event {
            let (before, retry_at) = (self.place().filter(|_| self.is_here()), *retry_at);
            let written = self.ledger.place(event, At::Nowhere { retry_at }).await?;
            if let (Written::Yes, Some(place)) = (written, before)
                && let Err(error) = self.sandboxes.remove(&place, self.claim.epoch).await
            {
                warn!(run.id = %self.ledger.run_id, error = &error as &dyn std::error::Error, "failed attempt left to the sweep");
            }
            return Ok(false);
        }
        Ok(self.ledger.finish(vec![event], None).await? == Written::Yes)
    }
}

fn lost(class: FailureClass) -> &'static str {
    match class {
        FailureClass::Setup => "the sandbox could not be made",
        FailureClass::SandboxLost => "the sandbox is gone without an exit record",
        FailureClass::HostLost => "the host of the sandbox is gone",
        FailureClass::WorkersLost => "worker after worker died with this run before doing anything",
    }
}

/// The worker's clock. It decides when to try again, never a lease.
pub(super) fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Pauses that grow, for what did not work and is tried again.
#[derive(Default)]
pub(super) struct Pause(u32);

impl Pause {
    pub(super) async fn take(&mut self) {
        tokio::time::sleep(Duration::from_millis((20 << self.0.min(6)).min(1000))).await;
        self.0 += 1;
    }
}

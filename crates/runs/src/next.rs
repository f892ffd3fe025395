//! The one thing to do, from what the log says and what the world looks like.

use crate::decide;
use crate::event::FailureClass;
use crate::run::{Phase, Run};

/// What stands at the place of the sandbox that the log names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Nothing, or something half made that a new start replaces.
    Absent,
    /// Its runner lives and the turn goes on.
    Live,
    /// The journal has the exit record: the whole tree is gone.
    Ended,
    /// The runner is dead without an exit record, and the whole tree is gone.
    Lost,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Log the intent to make a sandbox.
    Request {
        attempt: u32,
    },
    /// Make the sandbox that the log asks for.
    Create,
    /// Copy the journal to the log from where the log leaves off, to its end, and judge the turn.
    Follow,
    /// Kill the tree and prove it gone.
    Stop,
    Cancel,
    /// The attempt is over without a verdict of its own.
    Fail(FailureClass),
    /// The next attempt may start only then (milliseconds since the epoch).
    Wait {
        until: i64,
    },
    Nothing,
}

/// `here` is whether the sandbox's host is the one that looks; elsewhere nothing can be seen, and a claim is given only when that host is long gone.
pub fn next(run: &Run, seen: Seen, here: bool, now: i64) -> Action {
    match (&run.phase, seen) {
        (Phase::Completed | Phase::Failed | Phase::Cancelled, _) => Action::Nothing,
        // Never seen by a reader: the call that saves also ends.
        (Phase::Saved, _) => Action::Nothing,
        (Phase::Waiting { .. }, _) if run.cancel_requested => Action::Cancel,
        (Phase::Requested(_) | Phase::Started(_), _) if run.cancel_requested => match seen {
            Seen::Live if here => Action::Stop,
            _ => Action::Cancel,
        },
        (Phase::Waiting { retry_at: Some(at) }, _) if *at > now => Action::Wait { until: *at },
        (Phase::Waiting { .. }, _) => Action::Request { attempt: run.attempt + 1 },
        (Phase::Requested(_) | Phase::Started(_), _) if !here => Action::Fail(FailureClass::HostLost),
        (Phase::Requested(_), Seen::Absent) => Action::Create,
        (Phase::Started(_), Seen::Absent) => Action::Fail(FailureClass::SandboxLost),
        (Phase::Requested(_) | Phase::Started(_), Seen::Live | Seen::Ended | Seen::Lost) => Action::Follow,
    }
}

impl Run {
    /// Whether the agent's definition gives the run another sandbox after this one.
    pub fn may_retry(&self) -> bool {
        self.attempt < decide::attempts(&self.submitted.agent)
    }
}

//! What the log holds: runs with their events, sessions with their bindings, keys, hosts, erasures.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use runs::{Event, Projection, Recorded, Run, Submitted, project};
use uuid::Uuid;

use super::ids::Ids;
use crate::{AppendError, Attachment, LogError, Scope};

#[derive(Debug, Default)]
pub(super) struct State {
    /// By id, which is the order of acceptance.
    pub(super) runs: BTreeMap<Uuid, RunEntry>,
    pub(super) sessions: BTreeMap<Uuid, Session>,
    /// A session's internal id by the client's.
    pub(super) names: HashMap<String, Uuid>,
    pub(super) keys: HashMap<String, Key>,
    pub(super) hosts: HashMap<String, HostEntry>,
    /// By host.
    pub(super) erasures: BTreeSet<(String, Uuid)>,
    pub(super) ids: Ids,
    /// Counts what makes a session wait: finer than the clock.
    pub(super) ticks: u64,
}

#[derive(Debug)]
pub(super) struct RunEntry {
    pub(super) session: Uuid,
    pub(super) log: Vec<Recorded>,
    pub(super) attachments: Vec<Attachment>,
}

#[derive(Debug)]
pub(super) struct Session {
    pub(super) session_id: String,
    pub(super) agent_id: String,
    pub(super) user_id: Option<String>,
    pub(super) created_at: i64,
    pub(super) updated_at: i64,
    /// In order of acceptance.
    pub(super) runs: Vec<Uuid>,
    pub(super) binding: Binding,
    /// Every host that claimed it and so may have things of it.
    pub(super) hosts: BTreeSet<String>,
}

#[derive(Debug)]
pub(super) struct HostEntry {
    pub(super) kind: String,
    pub(super) label: String,
    pub(super) seen_at: i64,
}

#[derive(Debug, Default)]
pub(super) struct Binding {
    /// The tick since which the session waits: its first run came, or the one it had in hand ended.
    pub(super) since: u64,
    pub(super) epoch: u64,
    /// The run that was claimed last and has not ended.
    pub(super) run: Option<Uuid>,
    pub(super) holder: Option<Holder>,
    /// Where the sandbox is that the log asked for.
    pub(super) place: Option<Placed>,
    pub(super) retry_at: Option<i64>,
    pub(super) checkpoint: Option<String>,
    pub(super) conversation: Option<String>,
    /// Claims in a row whose holders neither appended nor renewed.
    pub(super) idle: u32,
}

#[derive(Debug)]
pub(super) struct Placed {
    pub(super) host: String,
    pub(super) sandbox: String,
    pub(super) since: i64,
}

#[derive(Debug)]
pub(super) struct Holder {
    pub(super) claim: Uuid,
    /// When the lease runs out.
    pub(super) until: i64,
}

#[derive(Debug)]
pub(super) struct Key {
    pub(super) agent_id: String,
    pub(super) user_id: Option<String>,
    /// As the client gave it: absent equals absent.
    pub(super) session_id: Option<String>,
    pub(super) fingerprint: Vec<u8>,
    pub(super) run: Uuid,
}

impl RunEntry {
    pub(super) fn projection(&self) -> Projection {
        project(&self.log)
    }

    pub(super) fn fold(&self) -> Result<Run, LogError> {
        let folded = Run::fold(&self.log).map_err(|illegal| LogError::Unreadable(illegal.to_string()))?;
        folded.ok_or_else(|| LogError::Unreadable("a run without events".into()))
    }

    pub(super) fn submitted(&self) -> Option<&Submitted> {
        self.log.first().and_then(|first| match &first.event {
            Event::Submitted(submitted) => Some(submitted.as_ref()),
            _ => None,
        })
    }

    pub(super) fn has_ended(&self) -> bool {
        self.log.last().is_some_and(|last| last.event.is_terminal())
    }

    fn next_seq(&self) -> u32 {
        self.log.last().map_or(0, |last| last.seq + 1)
    }

    fn next_index(&self) -> u32 {
        self.log.last().map_or(0, Recorded::next_index)
    }

    pub(super) fn push(&mut self, event: Event, at: i64) {
        let (seq, first_index) = (self.next_seq(), self.next_index());
        self.log.push(Recorded { seq, first_index, at, event });
    }
}

impl Session {
    pub(super) fn is_seen_by(&self, scope: Scope<'_>) -> bool {
        scope.is_none_or(|user| self.user_id.as_deref() == user)
    }
}

impl State {
    pub(super) fn by_name(&self, session_id: &str, scope: Scope<'_>) -> Option<(Uuid, &Session)> {
        let id = self.names.get(session_id)?;
        let session = self.sessions.get(id)?;
        session.is_seen_by(scope).then_some((*id, session))
    }

    /// The run with its session, where it is of that agent and in scope.
    pub(super) fn visible(&self, agent_id: &str, run_id: Uuid, scope: Scope<'_>) -> Option<(&RunEntry, &Session)> {
        let run = self.runs.get(&run_id)?;
        let session = self.sessions.get(&run.session)?;
        (session.agent_id == agent_id && session.is_seen_by(scope)).then_some((run, session))
    }

    pub(super) fn first_unended(&self, session: &Session) -> Option<(Uuid, &RunEntry)> {
        session.runs.iter().filter_map(|id| self.runs.get(id).map(|run| (*id, run))).find(|(_, run)| !run.has_ended())
    }

    /// The fence: `seq` must be the next one of a run that is there and has not ended.
    pub(super) fn fence(&self, run_id: Uuid, seq: u32, first_index: u32) -> Result<(), AppendError> {
        let run = self.runs.get(&run_id).ok_or(AppendError::Gone)?;
        let (next, index) = (run.next_seq(), run.next_index());
        if seq < next || run.has_ended() {
            return Err(AppendError::Taken(seq));
        }
        if (seq, first_index) != (next, index) {
            let what = format!("seq {seq} with first index {first_index}, where {next} with {index} is next");
            return Err(AppendError::Log(LogError::Unfit(what)));
        }
        Ok(())
    }

    /// Appends where the log ends now, and gives the session for what else the call does.
    pub(super) fn append(&mut self, run_id: Uuid, event: Event, at: i64) -> Result<&mut Session, AppendError> {
        let run = self.runs.get_mut(&run_id).ok_or(AppendError::Gone)?;
        let ends = event.is_terminal();
        run.push(event, at);
        let session = self.sessions.get_mut(&run.session).ok_or(AppendError::Gone)?;
        // What is done about a run that waits behind it is no sign of its holder.
        if session.binding.run == Some(run_id) {
            session.binding.idle = 0;
        }
        if ends {
            self.ticks += 1;
            session.binding.settle(run_id, self.ticks);
        }
        Ok(session)
    }
}

impl Binding {
    /// Nothing of an ended run is in hand any more. A run that was not claimed says nothing of what is in hand for another one.
    fn settle(&mut self, run_id: Uuid, tick: u64) {
        if self.run.take_if(|run| *run == run_id).is_some() {
            self.since = tick;
            (self.holder, self.place, self.retry_at, self.idle) = (None, None, None, 0);
        }
    }

    pub(super) fn is_held(&self, now: i64) -> bool {
        self.holder.as_ref().is_some_and(|holder| holder.until > now)
    }
}

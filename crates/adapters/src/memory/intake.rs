use async_trait::async_trait;
use runs::{Event, Status, decide};
use uuid::Uuid;

use super::Memory;
use super::state::{Binding, Key, RunEntry, Session, State};
use crate::{Accepted, CancelAnswer, Erased, Intake, LogError, Refused, Scope, Submission, Terms};

#[async_trait]
impl Intake for Memory {
    async fn submit(&self, submission: Submission) -> Result<Accepted, Refused> {
        let mut state = self.state();
        state.fit(submission.terms, self.now())?;
        if let Some((key, fingerprint)) = &submission.key
            && let Some(known) = state.keys.get(key)
        {
            return state.answer(known, &submission, fingerprint);
        }
        state.may_accept(&submission)?;
        Ok(state.accept(submission, self.now()))
    }

    async fn fit(&self, terms: Terms) -> Result<(), Refused> {
        self.state().fit(terms, self.now())
    }

    async fn cancel(&self, agent_id: &str, run_id: Uuid, scope: Scope<'_>) -> Result<Option<CancelAnswer>, LogError> {
        let mut state = self.state();
        let Some((run, _)) = state.visible(agent_id, run_id, scope) else { return Ok(None) };
        if !run.has_ended() {
            for event in decide::cancel(&run.fold()?) {
                if state.append(run_id, event, self.now()).is_err() {
                    return Ok(None);
                }
            }
        }
        let Some(run) = state.runs.get(&run_id) else { return Ok(None) };
        let projection = run.projection();
        Ok(Some(CancelAnswer { session: run.session, status: projection.status, cancel_requested: projection.cancel_requested }))
    }

    async fn erase(&self, session_id: &str, scope: Scope<'_>) -> Result<Erased, LogError> {
        let mut state = self.state();
        let Some((id, session)) = state.by_name(session_id, scope) else { return Ok(Erased::Unknown) };
        if state.first_unended(session).is_some() {
            return Ok(Erased::Busy);
        }
        state.remove(id);
        Ok(Erased::Gone)
    }
}

/// A host that is silent for longer is not alive.
const ALIVE: i64 = 30_000;

impl State {
    /// How many live.
    pub(super) fn hosts(&self, now: i64) -> usize {
        self.hosts.values().filter(|host| host.seen_at > now - ALIVE).count()
    }

    fn fit(&self, terms: Terms, now: i64) -> Result<(), Refused> {
        if terms.one_host && self.hosts(now) > 1 { Err(Refused::ManyHosts) } else { Ok(()) }
    }

    /// What a known key leads to. It is asked first: a retry works also when the queue is full.
    fn answer(&self, known: &Key, submission: &Submission, fingerprint: &[u8]) -> Result<Accepted, Refused> {
        let agent_id = &submission.submitted.agent.id;
        if (&known.agent_id, &known.user_id, &known.session_id) != (agent_id, &submission.user_id, &submission.session_id) {
            return Err(Refused::KeyScope);
        }
        if known.fingerprint != fingerprint {
            return Err(Refused::KeyInput);
        }
        let gone = || LogError::Unreadable("a key without its run".into());
        let run = self.runs.get(&known.run).ok_or_else(gone)?;
        let session = self.sessions.get(&run.session).ok_or_else(gone)?;
        Ok(Accepted { run_id: known.run, session_id: session.session_id.clone(), session: run.session, status: run.projection().status, new: false })
    }

    /// The owner's check, then the room in the queue.
    fn may_accept(&self, submission: &Submission) -> Result<(), Refused> {
        let named = submission.session_id.as_ref().and_then(|name| self.names.get(name)).and_then(|id| self.sessions.get(id));
        if named.is_some_and(|session| session.agent_id != submission.submitted.agent.id || session.user_id != submission.user_id) {
            return Err(Refused::SessionNotFound);
        }
        let waiting = || self.runs.values().filter(|run| run.projection().status == Status::Pending).count();
        if submission.terms.queue_limit.is_some_and(|limit| waiting() >= limit as usize) {
            return Err(Refused::QueueFull);
        }
        Ok(())
    }

    pub(super) fn accept(&mut self, submission: Submission, now: i64) -> Accepted {
        let Submission { session_id, user_id, submitted, attachments, key, .. } = submission;
        let agent_id = submitted.agent.id.clone();
        let known = session_id.as_ref().and_then(|name| self.names.get(name)).copied();
        let session = known.unwrap_or_else(|| self.ids.next(now));
        let run_id = self.ids.next(now);
        if let Some((key, fingerprint)) = key {
            let (agent_id, user_id, session_id) = (agent_id.clone(), user_id.clone(), session_id.clone());
            self.keys.insert(key, Key { agent_id, user_id, session_id, fingerprint, run: run_id });
        }
        let session_id = session_id.unwrap_or_else(|| session.to_string());
        let entry = self.sessions.entry(session).or_insert_with(|| Session {
            session_id: session_id.clone(),
            agent_id,
            user_id,
            created_at: now,
            updated_at: now,
            runs: Vec::new(),
            binding: Binding::default(),
            hosts: std::collections::BTreeSet::new(),
        });
        if entry.runs.iter().all(|run| self.runs.get(run).is_none_or(RunEntry::has_ended)) {
            self.ticks += 1;
            entry.binding.since = self.ticks;
        }
        entry.runs.push(run_id);
        entry.updated_at = now;
        self.names.insert(session_id.clone(), session);
        let mut run = RunEntry { session, log: Vec::new(), attachments };
        run.push(Event::Submitted(Box::new(submitted)), now);
        self.runs.insert(run_id, run);
        Accepted { run_id, session_id, session, status: Status::Pending, new: true }
    }

    fn remove(&mut self, id: Uuid) {
        let Some(session) = self.sessions.remove(&id) else { return };
        self.names.remove(&session.session_id);
        self.runs.retain(|_, run| run.session != id);
        self.keys.retain(|_, key| self.runs.contains_key(&key.run));
        self.erasures.extend(session.hosts.into_iter().map(|host| (host, id)));
    }
}

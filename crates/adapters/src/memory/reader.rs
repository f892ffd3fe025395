use std::ops::Bound;

use async_trait::async_trait;
use runs::{Event, Recorded, Status, frame};
use uuid::Uuid;

use super::Memory;
use super::state::{RunEntry, Session, State};
use crate::{Cursor, Health, LogError, PAGE_BYTES, Page, Reader, RunPage, RunRow, RunsQuery, Scope, SessionRow, Unended, WaitingFor};

#[async_trait]
impl Reader for Memory {
    async fn run(&self, agent_id: &str, run_id: Uuid, scope: Scope<'_>) -> Result<Option<RunRow>, LogError> {
        let state = self.state();
        let Some((run, session)) = state.visible(agent_id, run_id, scope) else { return Ok(None) };
        state.row(run_id, run, session, self.now()).map(Some)
    }

    async fn runs(&self, query: RunsQuery<'_>, scope: Scope<'_>) -> Result<RunPage, LogError> {
        let (state, now) = (self.state(), self.now());
        let newest_first = state.runs.range((Bound::Unbounded, before(query.cursor))).rev();
        let with_session = newest_first.filter_map(|(id, run)| state.sessions.get(&run.session).map(|session| (*id, run, session)));
        let wanted = with_session.filter(|(_, run, session)| {
            session.is_seen_by(scope)
                && query.agent_id.is_none_or(|id| session.agent_id == id)
                && query.session_id.is_none_or(|id| session.session_id == id)
                && query.user_id.is_none_or(|id| session.user_id.as_deref() == Some(id))
                && query.status.is_none_or(|status| run.projection().status == status)
        });
        let rows = wanted.map(|(id, run, session)| state.row(id, run, session, now));
        page(rows, query.limit, |row| row.run_id).map(within_bytes)
    }

    async fn session(&self, session_id: &str, scope: Scope<'_>) -> Result<Option<SessionRow>, LogError> {
        Ok(self.state().by_name(session_id, scope).map(|(id, session)| session.row(id)))
    }

    async fn sessions(
        &self,
        user_id: Option<&str>,
        agent_id: Option<&str>,
        cursor: Option<Cursor>,
        limit: u32,
        scope: Scope<'_>,
    ) -> Result<Page<SessionRow>, LogError> {
        let state = self.state();
        let newest_first = state.sessions.range((Bound::Unbounded, before(cursor))).rev();
        let wanted = newest_first.filter(|(_, session)| {
            session.is_seen_by(scope)
                && user_id.is_none_or(|id| session.user_id.as_deref() == Some(id))
                && agent_id.is_none_or(|id| session.agent_id == id)
        });
        page(wanted.map(|(id, session)| Ok(session.row(*id))), limit, |row| row.session)
    }

    async fn frames(&self, run_id: Uuid, index: u32, limit: u32) -> Result<Vec<Recorded>, LogError> {
        Ok(self.state().frames(run_id, index, limit as usize))
    }

    async fn tail(&self, from: &[(Uuid, u32)], limit: u32) -> Result<Vec<(Uuid, Recorded)>, LogError> {
        let state = self.state();
        let mut found = Vec::new();
        for (run_id, index) in from {
            let room = (limit as usize).saturating_sub(found.len());
            found.extend(state.frames(*run_id, *index, room).into_iter().map(|recorded| (*run_id, recorded)));
        }
        Ok(found)
    }

    async fn health(&self) -> Result<Health, LogError> {
        Ok(Health { schema: crate::postgres::VERSION, deployment: Uuid::nil() })
    }

    async fn unended(&self) -> Result<Unended, LogError> {
        let state = self.state();
        let count = |status| state.runs.values().filter(|run| run.projection().status == status).count() as u64;
        let pending = state.runs.values().filter(|run| run.projection().status == Status::Pending);
        let oldest = pending.filter_map(|run| run.log.first()).map(|first| first.at).min();
        let oldest_ms = oldest.map_or(0, |at| u64::try_from(self.now() - at).unwrap_or(0));
        Ok(Unended { pending: count(Status::Pending), running: count(Status::Running), oldest_ms })
    }
}

fn before(cursor: Option<Cursor>) -> Bound<Uuid> {
    cursor.map_or(Bound::Unbounded, |Cursor(id)| Bound::Excluded(id))
}

/// Takes one item more than the page has room for: whether there is a next page is known, not guessed.
fn page<T>(rows: impl Iterator<Item = Result<T, LogError>>, limit: u32, id: impl Fn(&T) -> Uuid) -> Result<Page<T>, LogError> {
    let limit = limit as usize;
    let mut items = rows.take(limit + 1).collect::<Result<Vec<_>, _>>()?;
    let more = items.len() > limit;
    items.truncate(limit);
    let next = if more { items.last().map(|last| Cursor(id(last))) } else { None };
    Ok(Page { items, next })
}

/// Ends a page of runs before it holds too many bytes of events.
fn within_bytes(mut page: RunPage) -> RunPage {
    let bytes = |run: &RunRow| {
        let stored = |event: &Event| event.to_stored().to_string().len();
        stored(&Event::Submitted(Box::new(run.submitted.clone()))) + run.terminal.as_ref().map_or(0, stored)
    };
    let sums = page.items.iter().scan(0, |sum, run| {
        *sum += bytes(run);
        Some(*sum)
    });
    let fitting = sums.take_while(|sum| *sum as i64 <= PAGE_BYTES).count().max(1);
    if fitting < page.items.len() {
        page.items.truncate(fitting);
        page.next = page.items.last().map(|last| Cursor(last.run_id));
    }
    page
}

impl Session {
    fn row(&self, session: Uuid) -> SessionRow {
        SessionRow {
            session_id: self.session_id.clone(),
            session,
            agent_id: self.agent_id.clone(),
            user_id: self.user_id.clone(),
            created_at: self.created_at,
            updated_at: self.updated_at,
            runs: self.runs.len() as u64,
        }
    }
}

impl State {
    fn frames(&self, run_id: Uuid, index: u32, limit: usize) -> Vec<Recorded> {
        let log = self.runs.get(&run_id).map_or(&[][..], |run| &run.log);
        let wanted = log.iter().filter(|recorded| frame::count(&recorded.event) > 0 && recorded.next_index() > index);
        wanted.take(limit).cloned().collect()
    }

    fn row(&self, run_id: Uuid, run: &RunEntry, session: &Session, now: i64) -> Result<RunRow, LogError> {
        let unreadable = || LogError::Unreadable("a run without run.submitted".into());
        let submitted = run.submitted().ok_or_else(unreadable)?.clone();
        let projection = run.projection();
        let mut unended = session.runs.iter().filter(|id| **id < run_id && self.runs.get(id).is_some_and(|run| !run.has_ended()));
        Ok(RunRow {
            run_id,
            session_id: session.session_id.clone(),
            agent_id: session.agent_id.clone(),
            user_id: session.user_id.clone(),
            status: projection.status,
            attempt: projection.attempt,
            cancel_requested: projection.cancel_requested,
            created_at: run.log.first().map_or(0, |first| first.at),
            started_at: projection.started_at,
            ended_at: projection.ended_at,
            submitted,
            terminal: run.log.last().map(|last| &last.event).filter(|event| event.is_terminal()).cloned(),
            waiting_on: if run.has_ended() { None } else { unended.next_back().copied() },
            waiting_for: self.waiting_for(run_id, session, now),
        })
    }

    /// Who is silent for longer than a heartbeat could be late is what the session's first run waits for: the host of its sandbox, or,
    /// before it was claimed, any host with its kind of sandbox.
    fn waiting_for(&self, run_id: Uuid, session: &Session, now: i64) -> Option<WaitingFor> {
        const SILENT: i64 = 30_000;
        let (first, run) = self.first_unended(session)?;
        if first != run_id || session.binding.is_held(now) {
            return None;
        }
        if let Some(placed) = &session.binding.place {
            let host = self.hosts.get(&placed.host).filter(|host| host.seen_at < now - SILENT)?;
            return Some(WaitingFor { host: host.label.clone(), since: host.seen_at });
        }
        if run.projection().status != Status::Pending {
            return None;
        }
        let kind = run.submitted()?.agent.sandbox.name();
        let seen = self.hosts.values().filter(|host| host.kind == kind).map(|host| host.seen_at).max();
        let since = seen.or_else(|| run.log.first().map(|first| first.at))?;
        (since < now - SILENT).then(|| WaitingFor { host: format!("any host with {kind} sandboxes"), since })
    }
}

use std::ops::Bound;

use async_trait::async_trait;
use runs::{Event, Status};
use uuid::Uuid;

use super::Memory;
use super::state::{RunEntry, State};
use crate::queue::{Counts, Held, Job, Queue, QueueError, QueueStats, Requeued};
use crate::{Cursor, LogError, Page, Submission, Terms};

#[async_trait]
impl Queue for Memory {
    async fn stats(&self) -> Result<QueueStats, LogError> {
        let state = self.state();
        let mut counts = Counts::default();
        for run in state.runs.values() {
            *match run.projection().status {
                Status::Pending => &mut counts.pending,
                Status::Running => &mut counts.running,
                Status::Completed => &mut counts.completed,
                Status::Error => &mut counts.error,
                Status::Cancelled => &mut counts.cancelled,
            } += 1;
        }
        let oldest = state.runs.values().find(|run| run.projection().status == Status::Pending);
        Ok(QueueStats { counts, oldest: oldest.and_then(|run| run.log.first()).map(|first| first.at), now: self.now() })
    }

    async fn jobs(&self, status: Option<Status>, cursor: Option<Cursor>, limit: u32) -> Result<Page<Job>, LogError> {
        let state = self.state();
        let before = cursor.map_or(Bound::Unbounded, |Cursor(id)| Bound::Excluded(id));
        let newest_first = state.runs.range((Bound::Unbounded, before)).rev();
        let wanted = newest_first.filter(|(_, run)| status.is_none_or(|status| run.projection().status == status));
        let mut items: Vec<Job> = wanted.filter_map(|(id, run)| state.job(*id, run, false)).take(limit as usize + 1).collect();
        let more = items.len() > limit as usize;
        items.truncate(limit as usize);
        let next = items.last().filter(|_| more).map(|last| Cursor(last.run_id));
        Ok(Page { items, next })
    }

    async fn job(&self, run_id: Uuid) -> Result<Option<Job>, LogError> {
        let state = self.state();
        Ok(state.runs.get(&run_id).and_then(|run| state.job(run_id, run, true)))
    }

    async fn requeue(&self, run_id: Uuid, one_host: bool) -> Result<Requeued, QueueError> {
        let mut state = self.state();
        let run = state.runs.get(&run_id).ok_or(QueueError::Unknown)?;
        if one_host && state.hosts(self.now()) > 1 {
            return Err(QueueError::ManyHosts);
        }
        if !run.has_ended() {
            return Err(QueueError::NotEnded);
        }
        let session = state.sessions.get(&run.session).ok_or(QueueError::Unknown)?;
        let mut submitted = run.submitted().ok_or(QueueError::Unknown)?.clone();
        submitted.requeued_from = Some(run_id);
        let agent_id = submitted.agent.id.clone();
        let again = Submission {
            session_id: Some(session.session_id.clone()),
            user_id: session.user_id.clone(),
            submitted,
            attachments: run.attachments.clone(),
            key: None,
            terms: Terms::default(),
        };
        let accepted = state.accept(again, self.now());
        Ok(Requeued { run_id: accepted.run_id, session_id: accepted.session_id, session: accepted.session, agent_id })
    }
}

impl State {
    fn job(&self, run_id: Uuid, run: &RunEntry, whole: bool) -> Option<Job> {
        let (session, submitted, projection) = (self.sessions.get(&run.session)?, run.submitted()?, run.projection());
        let binding = Some(&session.binding).filter(|binding| binding.run == Some(run_id));
        let worker = run.log.iter().rev().find_map(|recorded| match &recorded.event {
            Event::Claimed(claimed) => Some(claimed.worker.clone()),
            _ => None,
        });
        let holder = binding.and_then(|binding| binding.holder.as_ref());
        Some(Job {
            run_id,
            session_id: session.session_id.clone(),
            agent_id: session.agent_id.clone(),
            user_id: session.user_id.clone(),
            status: projection.status,
            kind: submitted.agent.sandbox.name().to_owned(),
            attempt: projection.attempt,
            cancel_requested: projection.cancel_requested,
            created_at: run.log.first().map_or(0, |first| first.at),
            started_at: projection.started_at,
            ended_at: projection.ended_at,
            held: holder.and_then(|holder| Some(Held { worker: worker?, lease_until: holder.until })),
            host: binding.and_then(|binding| binding.place.as_ref()).map(|place| place.host.clone()),
            retry_at: binding.and_then(|binding| binding.retry_at),
            files: whole.then(|| submitted.input.files.clone()),
            requeued_from: submitted.requeued_from.filter(|_| whole),
            failure: match run.log.last().map(|last| &last.event) {
                Some(Event::Failed { error, error_type, .. }) if whole => Some((error.clone(), error_type.clone())),
                _ => None,
            },
        })
    }
}

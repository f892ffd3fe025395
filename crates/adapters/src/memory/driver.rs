use async_trait::async_trait;
use runs::{Event, Recorded};
use uuid::Uuid;

use super::Memory;
use super::state::{HostEntry, Placed, RunEntry};
use crate::{AppendError, Attachment, Claim, ClaimRequest, Driver, Finish, Holding, HostSeen, LogError, Notice, Place, Ready};

#[async_trait]
impl Driver for Memory {
    async fn claim(&self, request: &ClaimRequest) -> Result<Option<Claim>, LogError> {
        let mut state = self.state();
        let now = self.now();
        Ok(state.claim(request, now))
    }

    async fn ready(&self, request: &ClaimRequest, after: Option<Uuid>, limit: u32) -> Result<Vec<Ready>, LogError> {
        let state = self.state();
        let now = self.now();
        Ok(state.ready(request, after, limit, now))
    }

    async fn events(&self, run_id: Uuid, seq: u32, limit: u32) -> Result<Vec<Recorded>, LogError> {
        let state = self.state();
        let log = state.runs.get(&run_id).map_or(&[][..], |run| &run.log);
        Ok(log.iter().filter(|recorded| recorded.seq >= seq).take(limit as usize).cloned().collect())
    }

    async fn tip(&self, run_id: Uuid) -> Result<Option<(u32, u32)>, LogError> {
        let state = self.state();
        let last = state.runs.get(&run_id).and_then(|run| run.log.last());
        Ok(last.map(|last| (last.seq + 1, last.next_index())))
    }

    async fn attachments(&self, run_id: Uuid) -> Result<Vec<Attachment>, LogError> {
        Ok(self.state().runs.get(&run_id).map(|run| run.attachments.clone()).unwrap_or_default())
    }

    async fn append(&self, run_id: Uuid, seq: u32, first_index: u32, event: &Event) -> Result<i64, AppendError> {
        let mut state = self.state();
        let now = self.now();
        state.fence(run_id, seq, first_index)?;
        state.append(run_id, event.clone(), now)?;
        Ok(now)
    }

    async fn place(&self, run_id: Uuid, seq: u32, first_index: u32, event: &Event, holding: Holding, place: &Place) -> Result<i64, AppendError> {
        let mut state = self.state();
        let now = self.now();
        state.fence(run_id, seq, first_index)?;
        let binding = &mut state.append(run_id, event.clone(), now)?.binding;
        if binding.holder.as_ref().is_some_and(|holder| holder.claim == holding.claim) {
            (binding.place, binding.retry_at) = match place {
                Place::At { host, sandbox, .. } => (Some(Placed { host: host.clone(), sandbox: sandbox.clone(), since: now }), None),
                Place::Nowhere { retry_at } => (None, Some(*retry_at)),
            };
        }
        Ok(now)
    }

    async fn finish(&self, finish: Finish) -> Result<(), AppendError> {
        let mut state = self.state();
        let now = self.now();
        state.fence(finish.run_id, finish.seq, finish.first_index)?;
        for event in finish.events {
            let binding = &mut state.append(finish.run_id, event, now)?.binding;
            if finish.checkpoint.is_some() {
                (binding.checkpoint, binding.conversation) = (finish.checkpoint.clone(), finish.conversation.clone());
            }
        }
        Ok(())
    }

    async fn hand_over(&self, run_id: Uuid, seq: u32, first_index: u32, reason: &str, holding: Holding) -> Result<(), AppendError> {
        let mut state = self.state();
        let now = self.now();
        state.fence(run_id, seq, first_index)?;
        let session = state.append(run_id, Event::HandedOver { reason: reason.into() }, now)?;
        session.binding.holder.take_if(|holder| holder.claim == holding.claim);
        Ok(())
    }

    async fn heartbeat(&self, holdings: &[Holding], hosts: &[HostSeen], lease_ms: u64) -> Result<Vec<Notice>, LogError> {
        let mut guard = self.state();
        let state = &mut *guard;
        let now = self.now();
        let shown = |seen: &HostSeen| HostEntry { kind: seen.kind.clone(), label: seen.label.clone(), seen_at: now };
        state.hosts.extend(hosts.iter().map(|seen| (seen.host.clone(), shown(seen))));
        let until = now.saturating_add(i64::try_from(lease_ms).unwrap_or(i64::MAX));
        let mut notices = Vec::new();
        for Holding { session, claim } in holdings {
            let Some(binding) = state.sessions.get_mut(session).map(|session| &mut session.binding) else { continue };
            // Whoever made the log's last claim holds the run, also when its lease has run out: nobody took it.
            let Some(holder) = binding.holder.as_mut().filter(|holder| holder.claim == *claim) else { continue };
            holder.until = until;
            binding.idle = 0;
            let cancel_requested = binding.run.and_then(|run| state.runs.get(&run)).is_some_and(|run| run.projection().cancel_requested);
            notices.push(Notice { claim: *claim, cancel_requested });
        }
        Ok(notices)
    }

    async fn ended(&self, runs: &[Uuid]) -> Result<Vec<Uuid>, LogError> {
        let state = self.state();
        Ok(runs.iter().copied().filter(|id| state.runs.get(id).is_none_or(RunEntry::has_ended)).collect())
    }

    async fn erasures(&self, host: &str) -> Result<Vec<Uuid>, LogError> {
        Ok(self.state().erasures.iter().filter(|(at, _)| at == host).map(|(_, session)| *session).collect())
    }

    async fn forget(&self, session: Uuid, host: &str) -> Result<(), LogError> {
        self.state().erasures.remove(&(host.to_owned(), session));
        Ok(())
    }

    /// Nothing to keep up: there are no partitions, and no events without a run.
    async fn upkeep(&self) -> Result<(), LogError> {
        Ok(())
    }
}

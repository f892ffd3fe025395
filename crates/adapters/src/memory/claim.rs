//! Which session a worker gets.

use runs::{Claimed, Event, Submitted};
use uuid::Uuid;

use super::state::{Holder, Placed, Session, State};
use crate::{Claim, ClaimRequest, Ready};

/// What may be claimed, in the order in which it is: living sandboxes first, then who waits longest.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    /// False sorts first.
    without_sandbox: bool,
    since: u64,
    run_id: Uuid,
    session: Uuid,
    host: String,
}

impl State {
    pub(super) fn claim(&mut self, request: &ClaimRequest, now: i64) -> Option<Claim> {
        let wanted = self.sessions.iter().filter(|(id, _)| request.session.is_none_or(|only| only == **id));
        let best = wanted.filter_map(|(id, session)| self.candidate(*id, session, request, now)).min()?;
        let session = self.sessions.get_mut(&best.session)?;
        let run = self.runs.get_mut(&best.run_id)?;
        let (claim, lease) = (Uuid::new_v4(), i64::try_from(request.lease_ms).unwrap_or(i64::MAX));
        let binding = &mut session.binding;
        binding.epoch += 1;
        (binding.run, binding.retry_at) = (Some(best.run_id), None);
        binding.holder = Some(Holder { claim, until: now.saturating_add(lease) });
        let idle_claims = binding.idle;
        binding.idle += 1;
        let sandbox = binding.place.as_ref().filter(|placed| placed.host == best.host).map(|placed| placed.sandbox.clone());
        session.hosts.insert(best.host.clone());
        let epoch = binding.epoch;
        run.push(Event::Claimed(Claimed { epoch, claim, host: best.host.clone(), worker: request.worker.clone() }), now);
        Some(Claim {
            session: best.session,
            session_id: session.session_id.clone(),
            run_id: best.run_id,
            claim,
            epoch,
            host: best.host,
            checkpoint: binding.checkpoint.clone(),
            conversation: binding.conversation.clone(),
            sandbox,
            idle_claims,
        })
    }

    pub(super) fn ready(&self, request: &ClaimRequest, after: Option<Uuid>, limit: u32, now: i64) -> Vec<Ready> {
        let wanted = self.sessions.iter().filter(|(id, _)| request.session.is_none_or(|only| only == **id) && after.is_none_or(|after| **id > after));
        let candidates = wanted.filter_map(|(id, session)| self.candidate(*id, session, request, now));
        let ready = candidates.filter_map(|one| {
            let run = self.runs.get(&one.run_id)?;
            let started = run.projection().started_at.filter(|_| !one.without_sandbox);
            let running_ms = started.map(|at| u64::try_from(now - at).unwrap_or(0));
            Some(Ready { session: one.session, run_id: one.run_id, time_limit_ms: run.submitted()?.agent.limits.time, running_ms })
        });
        ready.take(limit as usize).collect()
    }

    fn candidate(&self, id: Uuid, session: &Session, request: &ClaimRequest, now: i64) -> Option<Candidate> {
        let binding = &session.binding;
        if binding.is_held(now) || binding.retry_at.is_some_and(|at| at > now) {
            return None;
        }
        let (run_id, run) = self.first_unended(session)?;
        let host = self.host_for(request, run.submitted()?, binding.place.as_ref(), now)?;
        Some(Candidate { without_sandbox: binding.place.is_none(), since: binding.since, run_id, session: id, host })
    }

    /// Where the worker would drive it: where the sandbox is; another host only if there is none, or when its own is dead.
    fn host_for(&self, request: &ClaimRequest, submitted: &Submitted, placed: Option<&Placed>, now: i64) -> Option<String> {
        let kind = submitted.agent.sandbox.name();
        let mut reached = request.hosts.iter().filter(|(served, _)| served == kind).map(|(_, host)| host);
        let Some(placed) = placed else { return reached.next().cloned() };
        let silence = i64::try_from(request.dead_man_ms.saturating_add(request.lease_ms)).unwrap_or(i64::MAX);
        let dead = self.seen_at(placed).saturating_add(silence) < now;
        reached.clone().find(|host| **host == placed.host).or_else(|| if dead { reached.next() } else { None }).cloned()
    }

    /// A host that has never sent a heartbeat was there when the sandbox was asked for.
    pub(super) fn seen_at(&self, placed: &Placed) -> i64 {
        self.hosts.get(&placed.host).map_or(placed.since, |host| host.seen_at)
    }
}

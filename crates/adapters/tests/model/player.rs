//! Plays operations on a log and tells what came of them without ids and times, which differ from world to world.

use std::sync::Arc;

use adapters::queue::QueueError;
use adapters::{AppendError, ClaimRequest, RunRow, RunsQuery};
use runs::{Phase, Run, decide};
use uuid::Uuid;

use super::{Op, WORKERS};
use crate::kit::*;
use crate::world::Log;

const SESSIONS: [&str; 3] = ["s", "t", "u"];
/// Far from any test's now, on both sides.
const RETRIES: [i64; 2] = [0, 4_102_444_800_000];

pub(super) struct Player {
    log: Arc<dyn Log>,
    turns: [Option<Turn>; WORKERS],
    /// In order of acceptance.
    runs: Vec<Uuid>,
    /// What stands for an id, in the order in which the ids came up.
    names: Vec<(String, String)>,
}

fn host(worker: usize) -> &'static str {
    if worker == 0 { "a" } else { "b" }
}

/// Whether the seq was taken or the run is over, the worker lets go.
fn told<T>(answer: Result<T, AppendError>) -> String {
    match answer {
        Ok(_) => "done".into(),
        Err(AppendError::Taken(_) | AppendError::Gone) => "refused".into(),
        Err(AppendError::Log(error)) => panic!("{error:?}"),
    }
}

impl Player {
    pub(super) fn new(log: Arc<dyn Log>) -> Self {
        Self { log, turns: [const { None }; WORKERS], runs: Vec::new(), names: Vec::new() }
    }

    fn name(&mut self, kind: &str, id: Uuid) -> String {
        let id = id.to_string();
        if let Some((_, name)) = self.names.iter().find(|(known, _)| *known == id) {
            return name.clone();
        }
        let name = format!("{kind}-{}", self.names.len());
        self.names.push((id, name.clone()));
        name
    }

    fn without_ids(&self, text: String) -> String {
        self.names.iter().fold(text, |text, (id, name)| text.replace(id, name))
    }

    pub(super) async fn play(&mut self, op: &Op) -> String {
        match op {
            Op::Submit { session, owner, key, input, room } => self.submit((*session, *owner), *key, *input, *room).await,
            Op::Requeue { run } => self.requeue(*run).await,
            Op::Cancel { run } => match self.runs.get(*run) {
                Some(run) => self.without_ids(format!("{:?}", self.log.cancel("echo", *run, None).await.expect("the log answers"))),
                None => "nothing".into(),
            },
            Op::Erase { session } => format!("{:?}", self.log.erase(SESSIONS[*session], None).await.expect("the log answers")),
            Op::Claim { worker, session, lasting } => self.claim(*worker, *session, *lasting).await,
            Op::Step { worker, choice, looks } => match self.turns[*worker].as_mut() {
                Some(turn) => step(turn, *choice, *looks).await,
                None => "nothing".into(),
            },
            Op::HandOver { worker, looks } => match self.turns[*worker].as_mut() {
                Some(turn) => {
                    if may_go_on(turn, *looks).await {
                        told(turn.hand_over().await)
                    } else {
                        "let go".into()
                    }
                }
                None => "nothing".into(),
            },
            Op::Heartbeat { workers } => self.heartbeat(workers).await,
        }
    }

    async fn submit(&mut self, (session, owner): (usize, usize), key: Option<usize>, input: usize, room: Option<u32>) -> String {
        let message = format!("message {input}");
        let mut sent = submission(SESSIONS[session], &message);
        sent.user_id = [None, Some("ann".to_owned())][owner].clone();
        sent.key = key.map(|key| (format!("key {key}"), message.into_bytes()));
        sent.terms.queue_limit = room;
        let accepted = match self.log.submit(sent).await {
            Ok(accepted) => accepted,
            Err(adapters::Refused::Log(error)) => panic!("{error:?}"),
            Err(refused) => return refused.to_string(),
        };
        let run = self.name("run", accepted.run_id);
        if accepted.new {
            self.runs.push(accepted.run_id);
            let session = self.log.session(&accepted.session_id, None).await.expect("the log answers").expect("there");
            self.name("session", session.session);
        }
        format!("{run} of {}: {:?}, new: {}", accepted.session_id, accepted.status, accepted.new)
    }

    async fn requeue(&mut self, run: usize) -> String {
        let Some(run) = self.runs.get(run).copied() else { return "nothing".into() };
        match self.log.requeue(run, false).await {
            Ok(again) => {
                self.runs.push(again.run_id);
                let name = self.name("run", again.run_id);
                format!("{name} of {}", again.session_id)
            }
            Err(QueueError::Log(error)) => panic!("{error:?}"),
            Err(refused) => refused.to_string(),
        }
    }

    async fn claim(&mut self, worker: usize, session: Option<usize>, lasting: bool) -> String {
        let session = match session {
            Some(n) => match self.log.session(SESSIONS[n], None).await.expect("the log answers") {
                Some(session) => Some(session.session),
                None => return "nothing".into(),
            },
            None => None,
        };
        let wanted = ClaimRequest { session, ..request(host(worker), if lasting { LONG } else { 0 }) };
        let ready = self.log.ready(&wanted, None, 100).await.expect("the log answers");
        let claim = self.log.claim(&wanted).await.expect("the log answers");
        let taken = claim.as_ref().map(|claim| (claim.session, claim.run_id));
        let is_ready = taken.is_none_or(|taken| ready.iter().any(|one| (one.session, one.run_id) == taken));
        assert!(is_ready && ready.is_empty() == claim.is_none(), "a claim takes what is ready: {taken:?} of {ready:?}");
        let Some(claim) = claim else { return "none".into() };
        self.name("claim", claim.claim);
        let text = self.without_ids(format!("{claim:?}"));
        self.turns[worker] = Some(Turn::of(&self.log, claim).await);
        text
    }

    async fn heartbeat(&mut self, workers: &[usize]) -> String {
        let turns = workers.iter().filter_map(|worker| self.turns[*worker].as_ref());
        let mut holdings: Vec<_> = turns.map(Turn::holding).collect();
        holdings.dedup();
        let notices = self.log.heartbeat(&holdings, &[seen("a"), seen("b")], LONG).await.expect("the log answers");
        let mut told: Vec<_> = notices.iter().map(|notice| self.without_ids(format!("{notice:?}"))).collect();
        told.sort();
        told.dedup();
        told.join(", ")
    }

    /// What is in the log now, run by run; and that it is legal, and its projection right.
    pub(super) async fn read_all(&mut self) -> Vec<String> {
        let mut said = Vec::new();
        for run in self.runs.clone() {
            let events = events(&self.log, run).await;
            let row = self.log.run("echo", run, None).await.expect("the log answers");
            assert_eq!(row.is_some(), !events.is_empty(), "an erased run has neither row nor events");
            if let Some(row) = &row {
                let folded = Run::fold(&events).expect("a legal log").expect("there");
                assert_projected(row, &events);
                said.push(format!("{row_text} at {phase:?}", row_text = row_text(row), phase = folded.phase));
            }
            // The first event is the row's, which was compared.
            said.extend(events.iter().skip(1).map(|recorded| format!("{} {} {:?}", recorded.seq, recorded.first_index, recorded.event)));
        }
        let query = RunsQuery { limit: 100, ..RunsQuery::default() };
        let listed = self.log.runs(query, None).await.expect("the log answers").items;
        let mut listed: Vec<_> = listed.iter().map(|row| self.without_ids(row.run_id.to_string())).collect();
        listed.sort();
        said.push(format!("runs: {listed:?}"));
        let counts = self.log.stats().await.expect("the log answers").counts;
        said.push(format!("{counts:?}"));
        for name in SESSIONS {
            let session = self.log.session(name, None).await.expect("the log answers");
            let told = session.map(|row| (row.session, row.session_id, row.agent_id, row.user_id, row.runs));
            said.push(format!("session {told:?}"));
        }
        for host in ["a", "b"] {
            let erasures = self.log.erasures(host).await.expect("the log answers");
            let mut erasures: Vec<_> = erasures.iter().map(|session| self.without_ids(session.to_string())).collect();
            erasures.sort();
            said.push(format!("erasures at {host}: {erasures:?}"));
        }
        said.into_iter().map(|text| self.without_ids(text)).collect()
    }
}

fn row_text(row: &RunRow) -> String {
    let RunRow { run_id, session_id, agent_id, user_id, status, attempt, cancel_requested, terminal, waiting_on, waiting_for, .. } = row;
    format!(
        "{run_id} of {session_id} {agent_id} {user_id:?}: {status:?} {attempt} {cancel_requested} {terminal:?} on {waiting_on:?} for {waiting_for:?}"
    )
}

/// As a worker does after a look: who does not hold the run any more lets go.
async fn may_go_on(turn: &mut Turn, looks: bool) -> bool {
    if looks {
        let events = events(&turn.log, turn.claim.run_id).await;
        let Some(run) = Run::fold(&events).expect("a legal log") else { return false };
        turn.run = run;
    }
    turn.run.is_held_by(turn.claim.claim) && !turn.run.phase.has_ended()
}

async fn step(turn: &mut Turn, choice: usize, looks: bool) -> String {
    if !may_go_on(turn, looks).await {
        return "let go".into();
    }
    let cancelled = turn.run.cancel_requested;
    match (&turn.run.phase, choice) {
        (Phase::Waiting { .. }, 0) => told(turn.finish(vec![failed("no host")], None).await),
        (Phase::Waiting { .. }, _) => told(turn.request().await),
        (Phase::Requested(_) | Phase::Started(_), 0..4) if cancelled => told(turn.finish(vec![decide::cancelled()], None).await),
        (Phase::Requested(_) | Phase::Started(_), 0 | 1) => told(turn.fail_attempt(RETRIES[choice]).await),
        (Phase::Requested(_), 2) => told(turn.finish(vec![failed("no program")], None).await),
        (Phase::Requested(_), _) => told(turn.start().await),
        (Phase::Started(_), 2) => told(turn.finish(vec![failed("exit 3")], None).await),
        (Phase::Started(_), 3 | 4) => told(turn.complete(&format!("checkpoint {}", turn.run.seq)).await),
        (Phase::Started(_), _) => told(turn.print(&["a\n", "b\n", "c\n"][..choice - 5]).await),
        (phase, _) => panic!("a worker never sees {phase:?}"),
    }
}

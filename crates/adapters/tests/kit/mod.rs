//! What the cases are written with: submissions, workers, and turns that append what a worker would.

use std::sync::Arc;

use adapters::{Accepted, AppendError, Claim, ClaimRequest, Driver, Finish, Holding, HostSeen, Place, RunRow, Submission, Terms};
use runs::agents::{Agent, Harness, Limits, Network, SandboxKind};
use runs::{Event, FailureClass, Frame, Input, Metrics, Output, Recorded, Requested, Run, Status, Submitted, project};
use uuid::Uuid;

use crate::world::Log;

/// Longer than any case takes.
pub(crate) const LONG: u64 = 600_000;

pub(crate) fn agent(id: &str) -> Agent {
    Agent {
        id: id.into(),
        name: id.to_uppercase(),
        description: String::new(),
        harness: Harness::Command { command: vec!["/bin/cat".into()] },
        model: None,
        sandbox: SandboxKind::Namespace,
        network: Network::None,
        limits: Limits::default(),
        attempts: Some(3),
    }
}

pub(crate) fn submission(session: &str, message: &str) -> Submission {
    let input = Input { message: message.into(), ..Input::default() };
    Submission {
        session_id: Some(session.into()),
        user_id: None,
        submitted: Submitted { agent: agent("echo"), input, requeued_from: None },
        attachments: Vec::new(),
        key: None,
        terms: Terms::default(),
    }
}

pub(crate) fn of_user(user: &str, submission: Submission) -> Submission {
    Submission { user_id: Some(user.into()), ..submission }
}

pub(crate) fn of_agent(id: &str, mut submission: Submission) -> Submission {
    submission.submitted.agent = agent(id);
    submission
}

pub(crate) fn with_key(key: &str, fingerprint: &str, submission: Submission) -> Submission {
    Submission { key: Some((key.into(), fingerprint.into())), ..submission }
}

pub(crate) async fn accept(log: &Arc<dyn Log>, session: &str, message: &str) -> Accepted {
    log.submit(submission(session, message)).await.expect("accepted")
}

pub(crate) async fn row(log: &Arc<dyn Log>, run: Uuid) -> RunRow {
    log.run("echo", run, None).await.expect("the log answers").expect("the run is there")
}

pub(crate) async fn status(log: &Arc<dyn Log>, run: Uuid) -> Status {
    row(log, run).await.status
}

pub(crate) async fn events(log: &Arc<dyn Log>, run: Uuid) -> Vec<Recorded> {
    log.events(run, 0, 10_000).await.expect("the log answers")
}

pub(crate) async fn kinds(log: &Arc<dyn Log>, run: Uuid) -> Vec<&'static str> {
    events(log, run).await.iter().map(|recorded| recorded.event.kind()).collect()
}

/// When the last event came, by the log's clock.
pub(crate) async fn last_at(log: &Arc<dyn Log>, run: Uuid) -> i64 {
    events(log, run).await.last().expect("an event").at
}

pub(crate) fn request(host: &str, lease_ms: u64) -> ClaimRequest {
    let hosts = vec![("namespace".to_owned(), host.to_owned())];
    ClaimRequest { worker: format!("worker-at-{host}"), hosts, lease_ms, dead_man_ms: LONG, session: None }
}

pub(crate) async fn try_claim(log: &Arc<dyn Log>, host: &str, lease_ms: u64) -> Option<Claim> {
    log.claim(&request(host, lease_ms)).await.expect("the log answers")
}

pub(crate) async fn claim(log: &Arc<dyn Log>, host: &str) -> Turn {
    Turn::of(log, try_claim(log, host, LONG).await.expect("something to claim")).await
}

pub(crate) fn seen(host: &str) -> HostSeen {
    HostSeen { host: host.into(), kind: "namespace".into(), label: format!("machine of {host}") }
}

pub(crate) fn output(lines: &[&str], journal: u64) -> Event {
    let frames = lines.iter().map(|line| Frame::content((*line).to_owned())).collect();
    Event::Output(Output { frames, journal, parser: serde_json::Value::Null })
}

pub(crate) fn completed(content: &str) -> Event {
    Event::Completed { content: content.into(), content_type: "text/plain".into(), truncated: false, metrics: Metrics::default(), tools: Vec::new() }
}

pub(crate) fn failed(error: &str) -> Event {
    Event::Failed {
        error: error.into(),
        error_type: "harness".into(),
        started: true,
        content: String::new(),
        truncated: false,
        metrics: Metrics::default(),
        tools: Vec::new(),
    }
}

/// A claimed run in the hands of its worker: what it folded so far, and appends one past that.
pub(crate) struct Turn {
    pub(crate) log: Arc<dyn Log>,
    pub(crate) claim: Claim,
    pub(crate) run: Run,
}

impl Turn {
    pub(crate) async fn of(log: &Arc<dyn Log>, claim: Claim) -> Self {
        let run = fold(log.as_ref(), claim.run_id).await;
        Self { log: log.clone(), claim, run }
    }

    pub(crate) async fn look(&mut self) {
        self.run = fold(self.log.as_ref(), self.claim.run_id).await;
    }

    pub(crate) fn holding(&self) -> Holding {
        Holding { session: self.claim.session, claim: self.claim.claim }
    }

    fn next(&self) -> (Uuid, u32, u32) {
        (self.claim.run_id, self.run.seq + 1, self.run.next_index)
    }

    /// What was written is folded as it stands in the log.
    fn applied(&mut self, at: i64, event: Event) {
        let (_, seq, first_index) = self.next();
        self.run = self.run.clone().apply(&Recorded { seq, first_index, at, event }).expect("a legal event");
    }

    pub(crate) async fn append(&mut self, event: Event) -> Result<i64, AppendError> {
        let (run_id, seq, first_index) = self.next();
        let at = self.log.append(run_id, seq, first_index, &event).await?;
        self.applied(at, event);
        Ok(at)
    }

    async fn place(&mut self, event: Event, place: Place) -> Result<i64, AppendError> {
        let (run_id, seq, first_index) = self.next();
        let at = self.log.place(run_id, seq, first_index, &event, self.holding(), &place).await?;
        self.applied(at, event);
        Ok(at)
    }

    pub(crate) async fn request(&mut self) -> Result<i64, AppendError> {
        let attempt = self.run.attempt + 1;
        let (host, sandbox) = (self.claim.host.clone(), format!("{}-{attempt}", self.claim.run_id));
        let event = Event::SandboxRequested(Requested { attempt, name: sandbox.clone(), host: host.clone() });
        self.place(event, Place::At { host, sandbox, attempt }).await
    }

    pub(crate) async fn start(&mut self) -> Result<i64, AppendError> {
        self.append(Event::SandboxStarted { attempt: self.run.attempt, model: None, journal: 9 }).await
    }

    pub(crate) async fn print(&mut self, lines: &[&str]) -> Result<i64, AppendError> {
        let journal = self.run.journal + 1;
        self.append(output(lines, journal)).await
    }

    pub(crate) async fn fail_attempt(&mut self, retry_at: i64) -> Result<i64, AppendError> {
        let (attempt, class) = (self.run.attempt, FailureClass::SandboxLost);
        let event = Event::AttemptFailed { attempt, class, error: "gone".into(), retry_at };
        self.place(event, Place::Nowhere { retry_at }).await
    }

    pub(crate) async fn finish(&mut self, events: Vec<Event>, checkpoint: Option<&str>) -> Result<(), AppendError> {
        let (run_id, seq, first_index) = self.next();
        let (session, claim, checkpoint) = (self.claim.session, self.claim.claim, checkpoint.map(str::to_owned));
        let conversation = checkpoint.as_ref().map(|checkpoint| format!("talk of {checkpoint}"));
        self.log.finish(Finish { run_id, session, claim, seq, first_index, events, checkpoint, conversation }).await
    }

    pub(crate) async fn complete(&mut self, checkpoint: &str) -> Result<(), AppendError> {
        let saved = Event::CheckpointSaved { checkpoint: checkpoint.into(), bytes: 7, conversation: Some("talk".into()) };
        self.finish(vec![saved, completed("done")], Some(checkpoint)).await
    }

    pub(crate) async fn hand_over(&mut self) -> Result<(), AppendError> {
        let (run_id, seq, first_index) = self.next();
        self.log.hand_over(run_id, seq, first_index, "drain", self.holding()).await
    }

    /// From the claim to a started harness.
    pub(crate) async fn begin(&mut self) {
        self.request().await.expect("requested");
        self.start().await.expect("started");
    }

    pub(crate) async fn heartbeat(&self, lease_ms: u64) -> Vec<adapters::Notice> {
        self.log.heartbeat(&[self.holding()], &[], lease_ms).await.expect("the log answers")
    }
}

pub(crate) async fn fold(log: &(impl Driver + ?Sized), run: Uuid) -> Run {
    let log = log.events(run, 0, 10_000).await.expect("the log answers");
    Run::fold(&log).expect("a legal log").expect("the run is there")
}

/// The row is what its events project to.
pub(crate) fn assert_projected(row: &RunRow, events: &[Recorded]) {
    let expected = project(events);
    assert_eq!((row.status, row.attempt, row.cancel_requested), (expected.status, expected.attempt, expected.cancel_requested));
    assert_eq!((row.created_at, row.started_at, row.ended_at), (events[0].at, expected.started_at, expected.ended_at));
    assert_eq!(row.terminal.as_ref(), events.last().map(|last| &last.event).filter(|event| event.is_terminal()));
    assert!(matches!(&events[0].event, Event::Submitted(submitted) if **submitted == row.submitted));
}

pub(crate) fn is_taken<T>(answer: Result<T, AppendError>) -> bool {
    matches!(answer, Err(AppendError::Taken(_)))
}

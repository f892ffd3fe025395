//! A worker that appends what the case says.

use std::sync::Arc;

use adapters::{ClaimRequest, Driver, Finish, Holding, Place, Signal, Signals};
use runs::{Event, Frame, Metrics, Output, Recorded, Requested, frame};
use serde_json::Value;
use uuid::Uuid;

use super::Stage;

impl Stage {
    /// Claims a run, whichever waits longest.
    pub(crate) async fn worker(&self) -> Worker {
        let hosts = vec![("namespace".to_owned(), "host".to_owned())];
        let request = ClaimRequest { worker: "worker".into(), hosts, lease_ms: 600_000, dead_man_ms: 600_000, session: None };
        let claim = self.memory.claim(&request).await.unwrap().expect("a run waits");
        let events = self.memory.events(claim.run_id, 0, 100).await.unwrap();
        let last = events.last().unwrap();
        Worker {
            stage: self.clone(),
            run_id: claim.run_id,
            holding: Holding { session: claim.session, claim: claim.claim },
            seq: last.seq + 1,
            index: last.next_index(),
            attempt: 0,
            written: Vec::new(),
        }
    }
}

pub(crate) struct Worker {
    stage: Stage,
    pub(crate) run_id: Uuid,
    holding: Holding,
    seq: u32,
    pub(crate) index: u32,
    attempt: u32,
    written: Vec<Arc<Recorded>>,
}

impl Worker {
    /// Somebody else wrote: a wish to cancel.
    pub(crate) async fn sync(&mut self) {
        let events = self.stage.memory.events(self.run_id, self.seq, 100).await.unwrap();
        events.iter().for_each(|recorded| self.past(&recorded.event));
    }

    async fn append(&mut self, event: Event) {
        let at = self.stage.memory.append(self.run_id, self.seq, self.index, &event).await.unwrap();
        self.written.push(Arc::new(Recorded { seq: self.seq, first_index: self.index, at, event: event.clone() }));
        self.past(&event);
    }

    fn past(&mut self, event: &Event) {
        (self.seq, self.index) = (self.seq + 1, self.index + frame::count(event));
    }

    /// Says what it wrote, as a worker does: the newest event, or one before it.
    pub(crate) fn tell(&self, back: usize) {
        if let Some(event) = self.written.iter().rev().nth(back) {
            self.stage.parts.signals.send(Signal::committed(self.run_id, event.clone()));
        }
    }

    pub(crate) fn signal(&self) {
        self.stage.signals.send(Signal::look(self.run_id));
    }

    /// A sandbox, and the harness in it.
    pub(crate) async fn start(&mut self) {
        self.attempt += 1;
        let (name, host) = (format!("{}-{}", self.run_id, self.attempt), "host".to_owned());
        let asked = Event::SandboxRequested(Requested { attempt: self.attempt, name: name.clone(), host: host.clone() });
        let place = Place::At { host, sandbox: name, attempt: self.attempt };
        self.stage.memory.place(self.run_id, self.seq, self.index, &asked, self.holding, &place).await.unwrap();
        self.past(&asked);
        self.append(Event::SandboxStarted { attempt: self.attempt, model: None, journal: 0 }).await;
    }

    pub(crate) async fn say(&mut self, texts: &[&str]) {
        let frames = texts.iter().map(|text| Frame::content((*text).to_owned())).collect();
        self.append(Event::Output(Output { frames, journal: 0, parser: Value::Null })).await;
    }

    async fn finish(&mut self, events: Vec<Event>) {
        let (run_id, seq, first_index) = (self.run_id, self.seq, self.index);
        let Holding { session, claim } = self.holding;
        self.stage.memory.finish(Finish { run_id, session, claim, seq, first_index, events, checkpoint: None, conversation: None }).await.unwrap();
    }

    pub(crate) async fn complete(mut self, content: &str) {
        let saved = Event::CheckpointSaved { checkpoint: "c".into(), bytes: 1, conversation: None };
        let (content, metrics) = (content.to_owned(), Metrics { duration: Some(0.5), ..Metrics::default() });
        self.finish(vec![saved, Event::Completed { content, content_type: "str".into(), truncated: false, metrics, tools: Vec::new() }]).await;
    }

    pub(crate) async fn complete_at_once(mut self) {
        self.start().await;
        self.complete("done").await;
    }

    pub(crate) async fn cancelled(mut self) {
        self.finish(vec![Event::Cancelled { reason: "cancelled by request".into() }]).await;
    }

    pub(crate) async fn fail(mut self, error: &str, started: bool) {
        let (error, error_type, content) = (error.to_owned(), "exit".to_owned(), if started { "before\n".to_owned() } else { String::new() });
        self.finish(vec![Event::Failed { error, error_type, started, content, truncated: false, metrics: Metrics::default(), tools: Vec::new() }])
            .await;
    }
}

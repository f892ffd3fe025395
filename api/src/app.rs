//! What the routes share, and which there are.

use std::sync::Arc;

use ::runs::agents::{Agent, Agents};
use adapters::queue::Queue;
use adapters::{Intake, Reader, Ring, Signal, Signals};
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};
use tokio::sync::watch;
use uuid::Uuid;

use crate::respond::Refusal;
use crate::tail::{Settings, Tails};
use crate::{Options, Parts, agents, auth, edge, events, health, queue, resume, runs, sessions, submit};

pub(crate) struct App {
    pub(crate) intake: Arc<dyn Intake>,
    pub(crate) reader: Arc<dyn Reader>,
    pub(crate) signals: Arc<dyn Signals>,
    pub(crate) ring: Arc<dyn Ring>,
    pub(crate) queue: Arc<dyn Queue>,
    pub(crate) agents: Arc<Agents>,
    pub(crate) auth: Arc<auth::Auth>,
    pub(crate) options: Options,
    pub(crate) tails: Tails,
    /// True once the process is to end: what waits or streams then comes to its end.
    pub(crate) closing: watch::Sender<bool>,
}

impl App {
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { intake, reader, signals, ring, queue, agents, auth, options } = parts;
        let settings = Settings { tick: options.tick, ring_bytes: options.ring_bytes, silence: options.silence };
        let tails = Tails::start(reader.clone(), signals.clone(), settings);
        Self { intake, reader, signals, ring, queue, agents, auth, options, tails, closing: watch::Sender::new(false) }
    }

    /// Tells workers, in this process and elsewhere, that the session has work.
    pub(crate) async fn ring(&self, session: Uuid) {
        self.signals.send(Signal::Work);
        self.ring.ring(session).await;
    }

    pub(crate) fn agent(&self, id: &str) -> Result<&Agent, Refusal> {
        self.agents.get(id).ok_or(Refusal::AgentNotFound)
    }

    /// A run that is not there: of an agent that is.
    pub(crate) fn no_run(&self, agent_id: &str) -> Refusal {
        if self.agents.contains_key(agent_id) { Refusal::RunNotFound } else { Refusal::AgentNotFound }
    }

    /// Waits until the process is to end.
    pub(crate) async fn closed(&self) {
        // The sender is here, so this ends with `true` only.
        let _ = self.closing.subscribe().wait_for(|closing| *closing).await;
    }
}

pub(crate) fn routes(app: Arc<App>) -> Router {
    Router::new()
        .route("/health", get(health::health))
        .route("/agents", get(agents::list))
        .route("/agents/{agent}", get(agents::one))
        .route("/agents/{agent}/runs", post(submit::submit).get(runs::list))
        .route("/agents/{agent}/runs/{run}", get(runs::one))
        .route("/agents/{agent}/runs/{run}/cancel", post(runs::cancel))
        .route("/agents/{agent}/runs/{run}/events", get(events::list))
        .route("/agents/{agent}/runs/{run}/resume", get(resume::resume).post(resume::resume))
        .route("/sessions", get(sessions::list))
        .route("/sessions/{session}", get(sessions::one).delete(sessions::erase))
        .route("/sessions/{session}/runs", get(sessions::runs))
        .route("/sessions/{session}/runs/{run}", get(sessions::run))
        .merge(queue::routes())
        .fallback(async || Refusal::NotFound)
        .method_not_allowed_fallback(async || Refusal::Method)
        .layer(DefaultBodyLimit::max(submit::BODY_LIMIT))
        .layer(from_fn_with_state(app.clone(), auth::admit))
        .layer(from_fn(edge::edge))
        .with_state(app)
}

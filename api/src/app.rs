//! What the routes share, and which there are.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ::runs::agents::{Agent, Agents};
use adapters::metrics::Metrics;
use adapters::queue::Queue;
use adapters::{Intake, Reader, Ring, Signal, Signals};
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state};
use tokio::sync::{Mutex, watch};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use crate::respond::Refusal;
use crate::tail::{Settings, Tails};
use crate::{Options, Parts, agents, auth, edge, events, health, metrics, openapi, queue, resume, runs, sessions, submit};

/// How long a function's answer waits for signals to be on their way.
const SETTLING: Duration = Duration::from_millis(200);

pub(crate) struct App {
    pub(crate) intake: Arc<dyn Intake>,
    pub(crate) reader: Arc<dyn Reader>,
    pub(crate) signals: Arc<dyn Signals>,
    pub(crate) ring: Arc<dyn Ring>,
    pub(crate) queue: Arc<dyn Queue>,
    pub(crate) agents: Arc<Agents>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) auth: Arc<auth::Auth>,
    pub(crate) options: Options,
    pub(crate) tails: Tails,
    /// What the log answered when it was last asked how it is.
    pub(crate) found: Mutex<Option<health::Found>>,
    /// The process is to end in a while.
    pub(crate) leaving: AtomicBool,
    /// True once the process is to end: what waits or streams then comes to its end.
    pub(crate) closing: watch::Sender<bool>,
}

impl App {
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { intake, reader, signals, ring, queue, agents, metrics, auth, options } = parts;
        let settings = Settings { tick: options.tick, floor: options.floor, ring_bytes: options.ring_bytes, silence: options.silence };
        metrics.hears(signals.carried());
        let tails = Tails::start(reader.clone(), signals.clone(), metrics.clone(), settings);
        Self {
            intake,
            reader,
            signals,
            ring,
            queue,
            agents,
            metrics,
            auth,
            options,
            tails,
            found: Mutex::default(),
            leaving: AtomicBool::new(false),
            closing: watch::Sender::new(false),
        }
    }

    /// Tells workers, in this process and elsewhere, that the session has work.
    pub(crate) async fn ring(&self, session: Uuid) {
        self.signals.send(Signal::Work);
        self.ring.ring(session).await;
        self.settle().await;
    }

    /// A function may be frozen behind its answer, with what it has sent.
    pub(crate) async fn settle(&self) {
        if self.options.is_function {
            self.signals.settle(SETTLING).await;
        }
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

/// Each route as its handler describes it. What is not described is not routed.
pub(crate) fn described() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(health::health))
        .routes(routes!(metrics::metrics))
        .routes(routes!(agents::list))
        .routes(routes!(agents::one))
        .routes(routes!(submit::submit, runs::list))
        .routes(routes!(runs::one))
        .routes(routes!(runs::cancel))
        .routes(routes!(events::list))
        .routes(routes!(resume::resume, resume::resume_post))
        .routes(routes!(sessions::list))
        .routes(routes!(sessions::one, sessions::erase))
        .routes(routes!(sessions::runs))
        .routes(routes!(sessions::run))
        .merge(queue::described())
}

pub(crate) fn routes(app: Arc<App>) -> Router {
    openapi::router()
        .fallback(async || Refusal::NotFound)
        .method_not_allowed_fallback(async || Refusal::Method)
        .layer(DefaultBodyLimit::max(submit::BODY_LIMIT))
        .layer(from_fn_with_state(app.clone(), auth::admit))
        .layer(from_fn(edge::edge))
        .with_state(app)
}

//! The HTTP function: submit, read, cancel, and the tail that viewers see a run by.
//!
//! [`serve`] runs it on a listener, [`function`] under Lambda; [`router`] gives the same to whoever has a server of their own. `submit/` goes from a body to an accepted run, `tail/`
//! shows the log as it grows, `stream` puts that on the wire, `respond` alone knows the status codes and texts of refusals, `auth/` who may ask for what, `openapi/` describes
//! the routes and holds them to it. The other files are one route each.
//!
//! The law of this crate: **the api holds nothing.** A run is accepted when the log has it, a viewer sees what the log has, and any instance can answer
//! for any other. A client that goes away, a process that dies and a signal that is lost cost nobody an event.

mod agents;
mod app;
pub mod auth;
pub mod config;
mod edge;
mod events;
mod fields;
pub mod function;
mod health;
mod leftover;
mod metrics;
mod openapi;
mod queue;
mod render;
mod respond;
mod resume;
mod runs;
mod sessions;
mod show;
mod socket;
mod stream;
mod submit;
mod tail;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ::runs::agents::Agents;
use adapters::metrics::Metrics;
use adapters::queue::Queue;
use adapters::{Intake, Reader, Ring, Signals};
use axum::Router;
use tokio::net::TcpListener;

/// What the api stands on.
#[derive(Clone)]
pub struct Parts {
    pub intake: Arc<dyn Intake>,
    pub reader: Arc<dyn Reader>,
    pub signals: Arc<dyn Signals>,
    pub ring: Arc<dyn Ring>,
    pub queue: Arc<dyn Queue>,
    pub agents: Arc<Agents>,
    pub metrics: Arc<Metrics>,
    pub auth: Arc<auth::Auth>,
    pub options: Options,
}

#[derive(Clone, Debug)]
pub struct Options {
    /// How long a foreground submission waits for its run's end before it answers 202.
    pub wait_limit: Duration,
    /// How long a stream may last, where the function that serves it has a time limit. It ends by itself, and the client goes on with another.
    pub stream_limit: Option<Duration>,
    /// The log is asked at least so often while somebody watches a run.
    pub tick: Duration,
    /// The same while signals of other processes come here, which tell of news: then this only finds what they lost.
    pub floor: Duration,
    /// A comment is sent on a stream on which nothing has been sent for so long.
    pub keepalive: Duration,
    /// A viewer that hears nothing of its run for so long looks whether it is still there.
    pub silence: Duration,
    /// `/health` and `/metrics` wait so long for the log: who asks them has little time, and wants to know just when it does not answer.
    pub probe_limit: Duration,
    /// A connection on which no request's head comes in for so long is closed, also between requests.
    pub head_limit: Duration,
    /// A connection whose peer takes nothing for so long is dropped.
    pub stalled_limit: Duration,
    /// After `shutdown`, how long [`serve`] goes on as ever, while `/health` says that it will not: for what stands before it to send nobody here any more.
    pub drain: Duration,
    /// After that, how long it waits for connections that do not come to their end: one whose peer reads nothing, say.
    pub grace: Duration,
    /// Between invocations this process is frozen: what is sent has to be on its way before an answer, and what it counts is of no use.
    pub is_function: bool,
    /// How many runs may wait for their first claim before submissions are refused. `None`: any number.
    pub queue_limit: Option<u32>,
    /// Whether workers elsewhere can read the checkpoints.
    pub checkpoints: Checkpoints,
    /// What is kept of each watched run's latest frames.
    pub ring_bytes: usize,
}

/// Where the deployment's checkpoints are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Checkpoints {
    /// Somebody said where: that all workers reach it is theirs to see to.
    #[default]
    Named,
    /// In this folder by default, which one host reads: nothing is accepted while workers of more than one live.
    OneHost(PathBuf),
    /// The same where every worker is a function, on a machine of its own: nothing is accepted.
    OneFunction(PathBuf),
}

impl Default for Options {
    fn default() -> Self {
        Self {
            wait_limit: Duration::from_secs(25),
            stream_limit: None,
            tick: Duration::from_millis(50),
            floor: Duration::from_secs(1),
            keepalive: Duration::from_secs(15),
            silence: Duration::from_secs(15),
            // As long as a statement waits for a connection: a log that is only busy is not away.
            probe_limit: Duration::from_secs(5),
            // More than what stands before a server keeps idle connections for: closed by both at once, one is in use.
            head_limit: Duration::from_secs(75),
            stalled_limit: Duration::from_secs(60),
            drain: Duration::ZERO,
            grace: Duration::from_secs(5),
            is_function: false,
            queue_limit: None,
            checkpoints: Checkpoints::Named,
            ring_bytes: 256 * 1024,
        }
    }
}

/// In a request's extensions: what is answered to it ends by then, because who carries it stops.
#[derive(Clone, Copy, Debug)]
pub struct Until(pub tokio::time::Instant);

/// The routes. Needs a tokio runtime around it: the tail is a task of its own, which ends with the last clone of the router.
pub fn router(parts: Parts) -> Router {
    app::routes(Arc::new(app::App::new(parts)))
}

/// Serves until `shutdown` is ready; then streams end with `retry`, what is being answered is finished, and this returns.
pub async fn serve(listener: TcpListener, parts: Parts, shutdown: impl Future<Output = ()> + Send + 'static) -> io::Result<()> {
    socket::serve(listener, parts, shutdown).await
}

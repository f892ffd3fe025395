//! What stands behind the ports: the only place here that names concrete adapters, back ends and the two functions.

use std::future::Future;
use std::sync::Arc;

use adapters::metrics::Metrics;
use adapters::postgres::{place, user};
use adapters::program::{self, chain};
use adapters::queue::Queue;
use adapters::scrape::{self, Scraped};
use adapters::signals::NoRing;
use adapters::sqs::{Sending, Sqs};
use adapters::{Driver, Intake, LogError, Reader, Ring, Signals};
use api::auth::Auth;
use runs::agents::Agents;
use tokio::net::TcpListener;
use worker::sandbox::Sandboxes;
use worker::sandbox::namespace;
use worker::{Stop, Worker, checkpoint};

use crate::config::{Config, Database};
use crate::faults::Fault;

/// The agents that this process takes submissions for.
pub(crate) type Registered = Arc<Agents>;

/// The log behind its ports.
pub(crate) struct Log {
    pub(crate) intake: Arc<dyn Intake>,
    pub(crate) reader: Arc<dyn Reader>,
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) queue: Arc<dyn Queue>,
    pub(crate) signals: Arc<dyn Signals>,
    pub(crate) ring: Arc<dyn Ring>,
    pub(crate) metrics: Arc<Metrics>,
}

/// Who may ask the api of this process.
pub(crate) fn auth(config: &Config) -> Result<Arc<Auth>, Fault> {
    Auth::new(&config.auth).map(Arc::new).map_err(Fault::Auth)
}

/// What this process counts, and where a worker alone tells it.
pub(crate) async fn counts(config: &Config) -> Result<(Arc<Metrics>, Scraped), Fault> {
    scrape::started(config.metrics).await.map_err(Fault::Metrics)
}

/// Brings the schema up to date and connects.
pub(crate) async fn open(url: &str, owner_url: &str, config: &Config, metrics: Arc<Metrics>) -> Result<Log, Fault> {
    let unfit = |cause: LogError| Fault::Log { place: place(url), cause: chain(&cause) };
    let functions_role = user(url).filter(|role| Some(role) != user(owner_url).as_ref());
    let migrated = adapters::postgres::migrate(owner_url, &config.schema, functions_role.as_deref()).await;
    let owns = migrated.is_ok();
    // A pool that lets every run and as many requests talk at once.
    let connected = match &migrated {
        Err(LogError::Unreachable(_)) => None,
        _ => Some(adapters::postgres::connect(url, &config.schema, config.worker.turns + 8).await),
    };
    let log = match (migrated, connected) {
        (Ok(()), Some(connected)) => connected.map_err(unfit)?,
        // The functions' role alone may not migrate, and need not where the schema is what this build needs.
        (Err(LogError::Unfit(why)), Some(Ok(log))) if url == owner_url => {
            tracing::info!(%why, "the schema was not migrated; it is what this build needs");
            log
        }
        // It may not be migrated either, but that is not what is wrong.
        (Err(LogError::Unfit(_)), Some(Err(cause @ LogError::Differs(_)))) => return Err(unfit(cause)),
        (Err(cause), _) => return Err(unfit(cause)),
        (Ok(()), None) => return Err(Fault::Log { place: place(url), cause: "not tried".into() }),
    };
    if owns && functions_role.is_none() {
        tracing::warn!("one role is both the schema's owner and the functions': grants bind nothing (DATABASE_MIGRATE_URL)");
    }
    let ring: Arc<dyn Ring> = match &config.queue {
        Some(url) => Arc::new(Sqs::connect(url, Sending::Behind).await),
        None => Arc::new(NoRing),
    };
    let deployment = log.health().await.map_err(unfit)?.deployment;
    let signals = program::signals(&config.carrying, &log, url, &config.schema, deployment, config.worker.lease).await;
    let signals = signals.map_err(|cause| Fault::Signals(chain(&cause)))?;
    Ok(Log { intake: log.clone(), reader: log.clone(), queue: log.clone(), driver: log, signals, ring, metrics })
}

/// The sandboxes that this host can make; none at all is a fault.
pub(crate) async fn sandboxes(config: &Config) -> Result<Vec<Arc<dyn Sandboxes>>, Fault> {
    let namespace = config.worker.namespace(config.data.clone(), &config.schema).await;
    Ok(vec![namespace.map_err(|cause| Fault::Sandboxes(chain(&cause)))?])
}

/// Ends all sandboxes that stand; runs that had not ended wait for the next start.
pub(crate) async fn end_all(sandboxes: &[Arc<dyn Sandboxes>]) {
    for one in sandboxes {
        let standing = one.list().await.unwrap_or_else(|cause| {
            tracing::warn!("sandboxes cannot be listed: {}", chain(&cause));
            Vec::new()
        });
        for place in standing {
            if let Err(cause) = one.retire(&place).await {
                tracing::warn!(sandbox = place.name, "a sandbox was not ended: {}", chain(&cause));
            }
        }
    }
}

/// Before anything is driven: the data folder is this log's.
pub(crate) async fn belong(log: &Log, config: &Config) -> Result<(), Fault> {
    let unfit = |cause: LogError| Fault::Log { place: "the database".into(), cause: chain(&cause) };
    let deployment = log.reader.health().await.map_err(unfit)?.deployment;
    namespace::belong(&config.data, deployment).map_err(|cause| Fault::Sandboxes(chain(&cause)))
}

/// The HTTP function on a listener, until `shutdown`.
pub(crate) fn api(
    listener: TcpListener,
    log: &Log,
    agents: Registered,
    auth: Arc<Auth>,
    config: &Config,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> impl Future<Output = Result<(), String>> + Send + 'static {
    // With a Postgres of its own it is the one host.
    let alone = !config.checkpoints_by_default || config.database == Database::Embedded;
    let checkpoints = if alone { api::Checkpoints::Named } else { api::Checkpoints::OneHost(config.checkpoints.clone()) };
    let parts = api::Parts {
        intake: log.intake.clone(),
        reader: log.reader.clone(),
        signals: log.signals.clone(),
        ring: log.ring.clone(),
        queue: log.queue.clone(),
        agents,
        metrics: log.metrics.clone(),
        auth,
        options: api::Options { checkpoints, ..config.api.clone() },
    };
    async move { api::serve(listener, parts, shutdown).await.map_err(|cause| chain(&cause)) }
}

/// The driving function, until `shutdown`. A whole stack ends its sandboxes with it; a worker alone leaves them to the next one.
pub(crate) fn worker(
    log: &Log,
    sandboxes: Vec<Arc<dyn Sandboxes>>,
    config: &Config,
    whole: bool,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<impl Future<Output = Result<(), String>> + Send + 'static, Fault> {
    let unfit = |cause| Fault::Data { folder: config.checkpoints.clone(), cause };
    let checkpoints = checkpoint::Folder::open(config.checkpoints.clone()).map_err(unfit)?;
    if config.checkpoints_by_default && config.database != Database::Embedded {
        let folder = config.checkpoints.display();
        tracing::warn!("checkpoints are in {folder}: a worker on another host cannot go on with a session of this one (SANDLOG_CHECKPOINTS)");
    }
    let worker = Worker::new(worker::Parts {
        driver: log.driver.clone(),
        signals: log.signals.clone(),
        ring: log.ring.clone(),
        sandboxes,
        checkpoints: Arc::new(checkpoints),
        metrics: log.metrics.clone(),
        options: config.worker.options(),
    });
    let stop = if whole { Stop::EndSandboxes } else { Stop::LeaveSandboxes };
    Ok(async move {
        worker
            .run(async move {
                shutdown.await;
                stop
            })
            .await;
        Ok(())
    })
}

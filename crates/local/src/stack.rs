//! Everything on one machine: the data folder, Postgres, api and worker, started in an order in which each fault shows before anything costly was done, and
//! stopped in the reverse one.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use adapters::scrape::Scraped;
use api::auth::Auth;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use worker::sandbox::Sandboxes;

use crate::beacon::{self, Held};
use crate::cli::Role;
use crate::config::{Config, Database};
use crate::faults::Fault;
use crate::postgres::Embedded;
use crate::wiring::{self, Log};

/// How long api and worker may take to stop, behind what the api is to serve on.
const GRACE: Duration = Duration::from_secs(20);

/// What runs in this process.
pub(crate) struct Stack {
    /// Where it serves; nothing for a worker alone.
    pub(crate) url: Option<String>,
    order: watch::Sender<bool>,
    parts: JoinSet<(&'static str, Result<(), String>)>,
    postgres: Option<Embedded>,
    /// All sandboxes of the data folder, where nobody else can have any there.
    sandboxes: Vec<Arc<dyn Sandboxes>>,
    held: Option<Held>,
    _scraped: Scraped,
    grace: Duration,
}

impl Stack {
    /// Starts the roles of this process (`None`: both). `held` is the data folder's lock where the caller has it already.
    pub(crate) async fn start(config: &Config, only: Option<Role>, held: Option<Held>) -> Result<Stack, Fault> {
        let (serves, drives) = (only != Some(Role::Worker), only != Some(Role::Api));
        let (agents, auth) = (Arc::new(api::config::agents(&config.agents)?), wiring::auth(config)?);
        let listener = if serves { Some(listen(config.listen).await?) } else { None };
        let (metrics, scraped) = wiring::counts(config).await?;
        let held = take(config, only, held)?;
        let sandboxes = if drives { wiring::sandboxes(config).await? } else { Vec::new() };
        let (postgres, url, owner_url) = match &config.database {
            Database::Given { url, migrate_url } => (None, url.clone(), migrate_url.clone()),
            Database::Embedded => {
                let server = Embedded::start(&config.data, config.postgres_bin.as_deref()).await?;
                let (url, owner_url) = (server.functions_url.clone(), server.owner_url.clone());
                (Some(server), url, owner_url)
            }
        };
        let opened = async {
            let log = wiring::open(&url, &owner_url, config, metrics).await?;
            if drives {
                wiring::belong(&log, config).await?;
            }
            Ok(log)
        };
        let log = match opened.await {
            Ok(log) => log,
            Err(fault) => {
                if let Some(server) = postgres {
                    server.stop().await;
                }
                return Err(fault);
            }
        };
        // With a Postgres of its own, the folder's lock makes this the one process that drives sandboxes there.
        let ours = if postgres.is_some() { sandboxes.clone() } else { Vec::new() };
        let mut stack = Stack {
            url: None,
            order: watch::Sender::new(false),
            parts: JoinSet::new(),
            postgres,
            sandboxes: ours,
            held,
            _scraped: scraped,
            grace: GRACE + config.api.drain,
        };
        if drives {
            let worker = wiring::worker(&log, sandboxes, config, only.is_none(), stack.ordered())?;
            stack.part("the worker", worker);
        }
        if let Some(listener) = listener {
            stack.serve(listener, &log, agents, auth, config)?;
        }
        Ok(stack)
    }

    fn serve(&mut self, listener: TcpListener, log: &Log, agents: wiring::Registered, auth: Arc<Auth>, config: &Config) -> Result<(), Fault> {
        let address = listener.local_addr().map_err(|cause| Fault::Port { address: config.listen, cause })?;
        let url = format!("http://{address}");
        self.part("the HTTP API", wiring::api(listener, log, agents, auth, config, self.ordered()));
        self.url = Some(url);
        Ok(())
    }

    /// Tells other processes in the data folder that they may submit here.
    pub(crate) fn announce(&self, config: &Config) -> Result<(), Fault> {
        match (&self.held, &self.url) {
            (Some(held), Some(url)) => held.announce(url).map_err(|cause| Fault::Data { folder: config.data.clone(), cause }),
            _ => Ok(()),
        }
    }

    /// Waits until something ends that should not.
    pub(crate) async fn ended(&mut self) -> Fault {
        let postgres = async {
            match &self.postgres {
                Some(server) => server.ended().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            cause = postgres => Fault::Ended { what: "the embedded Postgres", cause },
            Some(part) = self.parts.join_next() => match part {
                Ok((what, how)) => Fault::Ended { what, cause: how.err().unwrap_or_else(|| "by itself".into()) },
                Err(panic) => Fault::Ended { what: "a part of it", cause: panic.to_string() },
            },
        }
    }

    /// Stops all that was started, the database last.
    pub(crate) async fn stop(mut self) {
        self.order.send_replace(true);
        let parts = async { while self.parts.join_next().await.is_some() {} };
        if tokio::time::timeout(self.grace, parts).await.is_err() {
            tracing::warn!("not all parts stopped within {:?}", self.grace);
        }
        self.parts.shutdown().await;
        // What the worker did not hold: sandboxes of one that was killed before.
        if tokio::time::timeout(GRACE, wiring::end_all(&self.sandboxes)).await.is_err() {
            tracing::warn!("not all sandboxes ended within {GRACE:?}");
        }
        if let Some(server) = self.postgres.take() {
            server.stop().await;
        }
    }

    fn part(&mut self, what: &'static str, part: impl Future<Output = Result<(), String>> + Send + 'static) {
        self.parts.spawn(async move { (what, part.await) });
    }

    fn ordered(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut order = self.order.subscribe();
        async move {
            // Without a sender left there is nobody to go on for.
            let _ = order.wait_for(|stop| *stop).await;
        }
    }
}

/// The data folder's lock: the embedded Postgres needs it; with a given one it only says who announces itself.
fn take(config: &Config, only: Option<Role>, held: Option<Held>) -> Result<Option<Held>, Fault> {
    if held.is_some() || only.is_some() {
        return Ok(held);
    }
    let held = beacon::hold(&config.data).map_err(|cause| Fault::Data { folder: config.data.clone(), cause })?;
    if held.is_none() && config.database == Database::Embedded {
        let at = beacon::announced(&config.data).map(|url| format!(" ({url})")).unwrap_or_default();
        return Err(Fault::Taken { folder: config.data.clone(), at });
    }
    Ok(held)
}

async fn listen(address: SocketAddr) -> Result<TcpListener, Fault> {
    TcpListener::bind(address).await.map_err(|cause| Fault::Port { address, cause })
}

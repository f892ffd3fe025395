//! The program `api`: the HTTP function under Lambda where there is its runtime, else a listener.

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use adapters::signals::NoRing;
use adapters::sqs::{Sending, Sqs};
use adapters::{Reader, Ring, postgres, program};
use api::auth::Auth;
use api::config::Config;
use api::{Parts, function};
use tokio::net::TcpListener;

/// Connections to Postgres: each statement holds one for as long as it takes.
const POOL: usize = 8;

#[tokio::main]
async fn main() -> ExitCode {
    program::log(program::USUAL);
    match serve().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("api: {}", program::chain(fault.as_ref()));
            ExitCode::FAILURE
        }
    }
}

async fn serve() -> Result<(), Box<dyn Error + Send + Sync>> {
    let config = Config::read(|name| std::env::var(name).ok())?;
    let agents = Arc::new(api::config::agents(&config.agents)?);
    let auth = Arc::new(Auth::new(&config.auth)?);
    let log = postgres::ready(&config.database, &config.schema, POOL).await?;
    let ring: Arc<dyn Ring> = match &config.queue {
        Some(url) => Arc::new(Sqs::connect(url, if config.listen.is_none() { Sending::Awaited } else { Sending::Behind }).await),
        None => Arc::new(NoRing),
    };
    let (url, deployment) = (&config.database.url, log.health().await?.deployment);
    let signals = program::signals(&config.carrying, &log, url, &config.schema, deployment, Duration::ZERO).await?;
    let (reader, intake) = (log.clone(), log.clone());
    let parts = Parts { intake, reader, queue: log, signals, ring, agents, auth, metrics: Arc::default(), options: config.options };
    let Some(address) = config.listen else { return function::serve(parts).await };
    let stop = program::told_to_stop()?;
    let listener = TcpListener::bind(address).await.map_err(|cause| format!("cannot listen on {address}: {cause}"))?;
    println!("api listening on http://{}", listener.local_addr()?);
    Ok(api::serve(listener, parts, stop).await?)
}

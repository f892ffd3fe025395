//! The program `worker`: the driving function under Lambda where there is its runtime, else a process that polls.

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;

use adapters::signals::NoRing;
use adapters::sqs::{Sending, Sqs};
use adapters::{Reader, Ring, postgres, program, scrape};
use worker::checkpoint::Folder;
use worker::config::Config;
use worker::{Parts, Stop, Worker, function};

#[tokio::main]
async fn main() -> ExitCode {
    program::log(program::USUAL);
    match work().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("worker: {}", program::chain(fault.as_ref()));
            ExitCode::FAILURE
        }
    }
}

async fn work() -> Result<(), Box<dyn Error + Send + Sync>> {
    let config = Config::read(|name| std::env::var(name).ok())?;
    let sandboxes = config.sandboxes().await?;
    let checkpoints = Folder::open(config.checkpoints.clone())?;
    let log = postgres::ready(&config.database, &config.schema, config.settings.turns + 8).await?;
    let deployment = log.health().await?.deployment;
    config.belong(deployment)?;
    let signals = program::signals(&config.carrying, &log, &config.database.url, &config.schema, deployment, config.settings.lease).await?;
    let ring: Arc<dyn Ring> = match &config.queue {
        Some(url) => Arc::new(Sqs::connect(url, if config.is_function { Sending::Awaited } else { Sending::Behind }).await),
        None => Arc::new(NoRing),
    };
    let (metrics, _scraped) = scrape::started(config.metrics).await?;
    let worker =
        Worker::new(Parts { driver: log, signals, ring, sandboxes, checkpoints: Arc::new(checkpoints), metrics, options: config.settings.options() });
    if config.is_function {
        return function::serve(worker).await;
    }
    let stop = program::told_to_stop()?;
    println!("worker ready");
    let stop = async {
        stop.await;
        Stop::LeaveSandboxes
    };
    worker.run(stop).await;
    Ok(())
}

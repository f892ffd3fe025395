//! What every program does with the process that it runs in.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tracing::warn;
use tracing_subscriber::EnvFilter;
use uuid::Uuid;

use crate::LogError;
use crate::config::Carrying;
use crate::postgres::{self, Postgres};
use crate::redis;
use crate::signals::{Hub, Signals};

/// What is logged where nobody says.
pub const USUAL: &str = "warn,sandlog=info,api=info,worker=info,adapters=info";

type Fault = Box<dyn Error + Send + Sync>;

/// Logs to standard error, because standard output is for what was asked: `SANDLOG_LOG`, else `RUST_LOG`, else `usual`.
pub fn log(usual: &str) {
    let named = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let wanted = named("SANDLOG_LOG").or_else(|| named("RUST_LOG")).unwrap_or_else(|| usual.to_owned());
    let filter = EnvFilter::try_new(&wanted).unwrap_or_else(|fault| {
        eprintln!("sandlog: SANDLOG_LOG: {fault}; using {usual}");
        EnvFilter::new(usual)
    });
    let ansi = io::IsTerminal::is_terminal(&io::stderr());
    // A second start in one process changes nothing.
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(ansi).try_init();
}

/// Waits for SIGINT or SIGTERM, which from now on no longer end the process by themselves.
pub fn told_to_stop() -> io::Result<impl Future<Output = ()> + Send + 'static> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

/// What is kept of a run for at least so long after the last word of it.
const KEPT: Duration = Duration::from_secs(60);

#[derive(Debug, thiserror::Error)]
pub enum Unsignalled {
    #[error(transparent)]
    Url(#[from] redis::BadUrl),
    #[error(transparent)]
    Log(#[from] LogError),
}

/// Of the log's deployment, for a carrier that others can write to as well.
pub async fn seal(log: &Postgres) -> Result<redis::Seal, LogError> {
    Ok(redis::Seal::new(log.secret().await?.as_deref()))
}

/// The process's hub. `url` and `schema` are the log's; `lease` is how long a worker may be silent.
pub async fn signals(
    carrying: &Carrying,
    log: &Arc<Postgres>,
    url: &str,
    schema: &str,
    deployment: Uuid,
    lease: Duration,
) -> Result<Arc<dyn Signals>, Unsignalled> {
    let hub = match carrying {
        Carrying::Redis { url, prefix } => {
            let prefix = prefix.clone().unwrap_or_else(|| redis::prefix_of(deployment));
            tracing::info!(prefix, "signals between processes go through Redis");
            let seal = seal(log).await?;
            if !seal.is_there() {
                tracing::warn!(
                    "the schema is of the release before: events do not ride along in Redis until it is migrated and this process started again"
                );
            }
            redis::connect(url, &prefix, KEPT.max(2 * lease), seal)?
        }
        Carrying::Listen => postgres::listen(url, schema, Arc::clone(log)),
        Carrying::Poll => Hub::poll(),
    };
    Ok(Arc::new(hub))
}

/// Ends of a function's loop without an invocation between them, after which the runtime is taken to be gone.
const ENDS: u32 = 5;

/// Runs a function's loop, and again where it ends by an error. The runtime's library gives up when one connection to the runtime breaks, and a client
/// that leaves in the middle of its answer can break one: others would find no function. `served` counts invocations.
pub async fn lasting<R: Future<Output = Result<(), Fault>>>(served: &AtomicU64, mut run: impl FnMut() -> R) -> Result<(), Fault> {
    let (mut before, mut ends) = (0, 0);
    while let Err(error) = run().await {
        let now = served.load(Relaxed);
        ends = if now == before { ends + 1 } else { 0 };
        if ends == ENDS {
            return Err(error);
        }
        before = now;
        warn!(error = error.as_ref() as &dyn Error, "a connection to the runtime broke");
    }
    Ok(())
}

/// An error and its causes on one line.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        // Some errors tell their cause themselves.
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_loop_that_breaks_goes_on_as_long_as_it_serves() {
        let (served, mut runs) = (AtomicU64::new(0), 0);
        let ended = lasting(&served, || {
            runs += 1;
            served.fetch_add(u64::from(runs <= 100), Relaxed);
            async { Err("broken".into()) }
        });
        assert_eq!(ended.await.map_err(|error| error.to_string()), Err("broken".to_owned()));
        assert_eq!(runs, 100 + ENDS);
        assert!(lasting(&served, || async { Ok(()) }).await.is_ok());
    }
}

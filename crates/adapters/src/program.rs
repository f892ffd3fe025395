//! What every program does with the process that it runs in.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;
use uuid::Uuid;

use crate::config::Carrying;
use crate::postgres::{self, Postgres};
use crate::redis;
use crate::signals::{Hub, Signals};

/// What is logged where nobody says.
pub const USUAL: &str = "warn,sandlog=info,api=info,worker=info,adapters=info";

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

/// The process's hub. `url` and `schema` are the log's; `lease` is how long a worker may be silent.
pub fn signals(
    carrying: &Carrying,
    log: &Arc<Postgres>,
    url: &str,
    schema: &str,
    deployment: Uuid,
    lease: Duration,
) -> Result<Arc<dyn Signals>, redis::BadUrl> {
    let hub = match carrying {
        Carrying::Redis { url, prefix } => {
            let prefix = prefix.clone().unwrap_or_else(|| redis::prefix_of(deployment));
            redis::connect(url, &prefix, KEPT.max(2 * lease))?
        }
        Carrying::Listen => postgres::listen(url, schema, Arc::clone(log)),
        Carrying::Poll => Hub::poll(),
    };
    Ok(Arc::new(hub))
}

/// An error and its causes on one line.
pub fn chain(error: &dyn std::error::Error) -> String {
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

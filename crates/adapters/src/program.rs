//! What every program does with the process that it runs in.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

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

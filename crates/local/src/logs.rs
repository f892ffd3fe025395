//! The log, on standard error: standard output is for what was asked.

use tracing_subscriber::EnvFilter;

/// `SANDLOG_LOG`, else `RUST_LOG`, else `usual`.
pub(crate) fn start(usual: &str) {
    let named = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let wanted = named("SANDLOG_LOG").or_else(|| named("RUST_LOG")).unwrap_or_else(|| usual.to_owned());
    let filter = EnvFilter::try_new(&wanted).unwrap_or_else(|fault| {
        eprintln!("sandlog: SANDLOG_LOG: {fault}; using {usual}");
        EnvFilter::new(usual)
    });
    let ansi = std::io::IsTerminal::is_terminal(&std::io::stderr());
    // A second start in one process changes nothing.
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(ansi).try_init();
}

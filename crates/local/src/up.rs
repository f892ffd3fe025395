//! `sandlog up`: serves until it is told to stop.

use std::io::Write;

use crate::cli::Role;
use crate::config::Config;
use crate::faults::Fault;
use crate::signals::Orders;
use crate::stack::Stack;

pub(crate) async fn up(config: &Config, only: Option<Role>) -> Result<(), Fault> {
    let mut orders = Orders::listen().map_err(|cause| Fault::Ended { what: "listening for signals", cause: cause.to_string() })?;
    let mut stack = tokio::select! {
        started = Stack::start(config, only, None) => started?,
        // What was started is stopped as it is dropped.
        () = orders.next() => return Ok(()),
    };
    if let Err(fault) = stack.announce(config) {
        stack.stop().await;
        return Err(fault);
    }
    let line = match &stack.url {
        Some(url) => format!("sandlog listening on {url}\n"),
        None => "sandlog worker ready\n".to_owned(),
    };
    // Nobody may be reading; that is no reason not to serve.
    let _ = std::io::stdout().write_all(line.as_bytes());
    let _ = std::io::stdout().flush();
    let ended = tokio::select! {
        fault = stack.ended() => Err(fault),
        () = orders.next() => Ok(()),
    };
    tokio::select! {
        () = stack.stop() => ended,
        // Asked twice: at once. The kernel stops the Postgres with this process.
        () = orders.next() => Err(Fault::Ended { what: "stopping", cause: "a second signal came".into() }),
    }
}

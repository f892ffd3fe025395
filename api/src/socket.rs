//! The api on a listener of its own.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::serve::ListenerExt;
use rustix::net::sockopt;
use tokio::net::{TcpListener, TcpStream};

use crate::Parts;
use crate::app::{App, routes};

pub(crate) async fn serve(listener: TcpListener, parts: Parts, shutdown: impl Future<Output = ()> + Send + 'static) -> io::Result<()> {
    let app = Arc::new(App::new(parts));
    let stalled = app.options.stalled_limit;
    let closing = app.clone();
    let listener = listener.tap_io(move |stream| {
        if let Err(error) = prepare(stream, stalled) {
            tracing::warn!(error = &error as &dyn std::error::Error, "api.socket: a connection has no time limit");
        }
    });
    let grace = app.options.grace;
    let late = app.clone();
    // Made once: a `Router` itself would be copied for every connection, with all its routes.
    let serving = axum::serve(listener, routes(app).into_make_service()).with_graceful_shutdown(async move {
        shutdown.await;
        closing.closing.send_replace(true);
    });
    tokio::select! {
        served = serving.into_future() => served,
        () = async {
            late.closed().await;
            tokio::time::sleep(grace).await;
        } => {
            tracing::warn!("api.socket: not every connection came to its end");
            Ok(())
        }
    }
}

/// A peer that is gone, or that takes nothing, must not hold a connection for ever: the kernel drops it after `stalled`.
fn prepare(stream: &TcpStream, stalled: Duration) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, stalled.max(Duration::from_secs(1)))?;
    sockopt::set_tcp_keepintvl(stream, Duration::from_secs(10))?;
    sockopt::set_tcp_user_timeout(stream, u32::try_from(stalled.as_millis()).unwrap_or(u32::MAX))?;
    Ok(())
}

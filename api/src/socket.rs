//! The api on a listener of its own.

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::net::sockopt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::Parts;
use crate::app::{App, routes};

/// Where no connection can be taken (no descriptors are left, say), it is tried again after that.
const RETRY: Duration = Duration::from_secs(1);

pub(crate) async fn serve(listener: TcpListener, parts: Parts, shutdown: impl Future<Output = ()> + Send + 'static) -> io::Result<()> {
    let app = Arc::new(App::new(parts));
    let routes = routes(app.clone());
    let (open, mut closed) = mpsc::channel::<Infallible>(1);
    let mut shutdown = pin!(shutdown);
    loop {
        let stream = tokio::select! {
            stream = accept(&listener) => stream,
            () = &mut shutdown => break,
        };
        if let Err(error) = prepare(&stream, app.options.stalled_limit) {
            tracing::warn!(error = &error as &dyn std::error::Error, "api.socket: a connection has no time limit");
        }
        tokio::spawn(connection(stream, routes.clone(), app.clone(), open.clone()));
    }
    drop((listener, open));
    app.closing.send_replace(true);
    // Ends when every connection has dropped its sender.
    if tokio::time::timeout(app.options.grace, closed.recv()).await.is_err() {
        tracing::warn!("api.socket: not every connection came to its end");
    }
    Ok(())
}

async fn accept(listener: &TcpListener) -> TcpStream {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) if matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) => {}
            Err(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "api.socket: no connection can be taken");
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

/// One connection to its end: the client's, the process', or that no request's head comes in within its time.
async fn connection(stream: TcpStream, routes: Router, app: Arc<App>, open: mpsc::Sender<Infallible>) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(app.options.head_limit);
    let mut serving = pin!(http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes)));
    let served = tokio::select! {
        served = serving.as_mut() => served,
        () = app.closed() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(error = &error as &dyn std::error::Error, "api.socket: a connection broke");
    }
    drop(open);
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

//! The api on a listener of its own.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::net::sockopt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::Parts;
use crate::app::{App, routes};

/// Before the next connection is taken, where the system had nothing left for this one.
const PAUSE: Duration = Duration::from_millis(500);

/// What a connection gathers before it waits for its peer, and the longest head of a request. The usual 400 KiB are several chunks of a stream for each
/// viewer that stopped reading. A request line of 64 KiB fits, and a longer one is refused as that.
const HELD: usize = 72 * 1024;

/// HTTP/1 by itself: where the version is guessed by the first bytes, each connection keeps a buffer of twice the size for as long as it lives, and viewers
/// are many connections that live long.
pub(crate) async fn serve(listener: TcpListener, parts: Parts, shutdown: impl Future<Output = ()> + Send + 'static) -> io::Result<()> {
    let app = Arc::new(App::new(parts));
    // With all it needs, so that a copy for a connection shares it.
    let router = routes(app.clone()).with_state(());
    let (mut connections, mut shutdown) = (JoinSet::new(), pin!(shutdown));
    let mut end = None;
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => drop(connections.spawn(connection(stream, router.clone(), app.clone()))),
                Err(error) if is_of_the_peer(&error) => {}
                Err(error) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "api.socket: no connection can be taken");
                    sleep(PAUSE).await;
                }
            },
            Some(_) = connections.join_next() => {}
            () = &mut shutdown, if end.is_none() => {
                app.leaving.store(true, Ordering::SeqCst);
                end = Some(Instant::now() + app.options.drain);
            }
            () = sleep_until(end.unwrap_or_else(Instant::now)), if end.is_some() => break,
        }
    }
    drop(listener);
    app.closing.send_replace(true);
    let ended = async { while connections.join_next().await.is_some() {} };
    if timeout(app.options.grace, ended).await.is_err() {
        tracing::warn!("api.socket: not every connection came to its end");
    }
    Ok(())
}

/// One connection to its end: the client's, the process', or that no request's head comes in within its time.
async fn connection(stream: TcpStream, router: Router, app: Arc<App>) {
    if let Err(error) = prepare(&stream, app.options.stalled_limit) {
        tracing::warn!(error = &error as &dyn std::error::Error, "api.socket: a connection has no time limit");
    }
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(app.options.head_limit).max_buf_size(HELD);
    let mut serving = pin!(http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)));
    // A peer that breaks off is its own business.
    tokio::select! {
        _ = serving.as_mut() => {}
        () = app.closed() => {
            serving.as_mut().graceful_shutdown();
            let _ = serving.await;
        }
    }
}

fn is_of_the_peer(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset)
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

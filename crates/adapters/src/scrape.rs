//! `GET /metrics` of a process that serves nothing else: a worker alone. Every answer ends its connection.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::metrics::{Metrics, OPEN_METRICS};

/// How long one may take to ask and to take the answer, how long a question may be, and how many are heard at once.
const PATIENCE: Duration = Duration::from_secs(5);
const LONGEST: usize = 8 * 1024;
const TOGETHER: usize = 8;

/// Told for as long as this is kept.
#[derive(Debug)]
pub struct Scraped {
    _task: JoinSet<Infallible>,
}

/// Counts of a process, told at `address` where somebody said where.
pub async fn started(address: Option<SocketAddr>) -> io::Result<(Arc<Metrics>, Scraped)> {
    let (metrics, mut task) = (Arc::default(), JoinSet::new());
    if let Some(address) = address {
        let taken = |cause: io::Error| io::Error::new(cause.kind(), format!("SANDLOG_METRICS_PORT: cannot listen on {address}: {cause}"));
        let listener = TcpListener::bind(address).await.map_err(taken)?;
        tracing::info!("metrics are at http://{}/metrics", listener.local_addr()?);
        task.spawn(serve(listener, Arc::clone(&metrics)));
    }
    Ok((metrics, Scraped { _task: task }))
}

async fn serve(listener: TcpListener, metrics: Arc<Metrics>) -> Infallible {
    let (room, mut connections) = (Arc::new(Semaphore::new(TOGETHER)), JoinSet::new());
    loop {
        let permit = Arc::clone(&room).acquire_owned().await;
        match listener.accept().await {
            Ok((stream, _)) => {
                let metrics = Arc::clone(&metrics);
                connections.spawn(async move {
                    // Who leaves, or is slow, goes without.
                    let _ = timeout(PATIENCE, answer(stream, &metrics)).await;
                    drop(permit);
                });
            }
            // No descriptor is free, say.
            Err(_) => sleep(Duration::from_millis(100)).await,
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn answer(stream: TcpStream, metrics: &Metrics) -> Result<(), hyper::Error> {
    let tell = service_fn(|request: Request<Incoming>| async move {
        let (status, kind, text) = match (request.method(), request.uri().path()) {
            (&Method::GET, "/metrics") => (StatusCode::OK, OPEN_METRICS, metrics.text(None)),
            (&Method::GET, _) => (StatusCode::NOT_FOUND, "text/plain", "only /metrics is here\n".to_owned()),
            _ => (StatusCode::METHOD_NOT_ALLOWED, "text/plain", "only GET is answered here\n".to_owned()),
        };
        Response::builder().status(status).header(CONTENT_TYPE, kind).body(text)
    });
    http1::Builder::new().keep_alive(false).max_buf_size(LONGEST).serve_connection(TokioIo::new(stream), tell).await
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn ask(address: SocketAddr, text: &str) -> String {
        let mut stream = TcpStream::connect(address).await.expect("a connection");
        stream.write_all(text.as_bytes()).await.expect("asked");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer");
        answer
    }

    #[tokio::test]
    async fn counts_are_told_to_who_asks_for_them_and_nothing_else_is() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let (address, metrics) = (listener.local_addr().expect("an address"), Arc::new(Metrics::default()));
        metrics.driven(3);
        let mut task = JoinSet::new();
        task.spawn(serve(listener, metrics));
        // As many that say nothing as leave room for one.
        let _silent = silent(address).await;
        let told = ask(address, "GET /metrics?x=1 HTTP/1.1\r\nhost: x\r\n\r\n").await;
        assert!(told.starts_with("HTTP/1.1 200 OK\r\n") && told.contains("\nsandlog_runs_driven 3\n"), "{told}");
        assert!(ask(address, "GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.starts_with("HTTP/1.1 404 "));
        assert!(ask(address, "POST /metrics HTTP/1.1\r\nhost: x\r\n\r\n").await.starts_with("HTTP/1.1 405 "));
        assert!(ask(address, &format!("GET /{} HTTP/1.1", "x".repeat(2 * LONGEST))).await.starts_with("HTTP/1.1 4"));
    }

    async fn silent(address: SocketAddr) -> Vec<TcpStream> {
        let mut silent = Vec::new();
        for _ in 1..TOGETHER {
            silent.push(TcpStream::connect(address).await.expect("a connection"));
        }
        silent
    }
}

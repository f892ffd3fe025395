//! On a real listener: clients that stall, that go away, and the end of the process.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use api::Options;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::kit::{LIMIT, Stage, eventually};

struct Server {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<std::io::Result<()>>,
}

async fn serve(stage: &Stage) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let shutdown = async move {
        let _ = stopped.await;
    };
    let task = tokio::spawn(api::serve(listener, stage.parts.clone(), shutdown));
    Server { address, stop: Some(stop), task }
}

async fn ask(address: SocketAddr, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// Reads until the text has come.
async fn read_to(stream: &mut TcpStream, text: &str) -> String {
    let (mut got, mut buffer) = (String::new(), [0; 4096]);
    while !got.contains(text) {
        let length = tokio::time::timeout(LIMIT, stream.read(&mut buffer)).await.expect("it comes").unwrap();
        assert!(length > 0, "closed after {got:?}");
        got.push_str(&String::from_utf8_lossy(&buffer[..length]));
    }
    got
}

#[tokio::test]
async fn streams_end_with_retry_when_the_process_is_to_end() {
    let stage = Stage::new();
    let mut server = serve(&stage).await;
    let run = stage.accepted(&[("message", "x")]).await;
    let mut viewer = ask(server.address, &format!("GET /agents/echo/runs/{run}/resume HTTP/1.1\r\nhost: x\r\n\r\n")).await;
    read_to(&mut viewer, "event: subscribed").await;
    let form = "message=y&stream=false";
    let request = format!(
        "POST /agents/echo/runs HTTP/1.1\r\nhost: x\r\ncontent-type: application/x-www-form-urlencoded\r\ncontent-length: {}\r\n\r\n{form}",
        form.len()
    );
    let mut waiting = ask(server.address, &request).await;
    eventually(|| async { stage.get("/agents/echo/runs").await.json()["data"].as_array().unwrap().len() == 2 }).await;
    server.stop.take().unwrap().send(()).unwrap();
    assert!(read_to(&mut viewer, "0\r\n\r\n").await.contains("retry: 1000\n\n"));
    assert!(read_to(&mut waiting, "\r\n\r\n").await.starts_with("HTTP/1.1 202"));
    tokio::time::timeout(LIMIT, server.task).await.expect("the server ends").unwrap().unwrap();
}

#[tokio::test]
async fn a_viewer_that_stops_reading_is_dropped() {
    let options = Options { tick: Duration::from_millis(2), stalled_limit: Duration::from_millis(800), ..Options::default() };
    let stage = Stage::with(options);
    let server = serve(&stage).await;
    stage.accepted(&[("message", "x")]).await;
    let mut worker = stage.worker().await;
    worker.start().await;
    let mut viewer = ask(server.address, &format!("GET /agents/echo/runs/{}/resume HTTP/1.1\r\nhost: x\r\n\r\n", worker.run_id)).await;
    read_to(&mut viewer, "event: subscribed").await;
    // More than the kernel's buffers take.
    let line = "x".repeat(1024 * 1024);
    for _ in 0..24 {
        worker.say(&[&line]).await;
    }
    // Nobody else looks, so the tail falls silent only when the connection is gone.
    let calls = || stage.reader.tails.load(Ordering::SeqCst);
    let mut last = usize::MAX;
    eventually(|| {
        let quiet = calls() == last;
        last = calls();
        async move {
            tokio::time::sleep(Duration::from_millis(50)).await;
            quiet
        }
    })
    .await;
    drop(viewer);
}

#[tokio::test]
async fn a_viewer_that_stops_reading_does_not_hold_up_the_end_of_the_process() {
    let stage = Stage::with(Options { tick: Duration::from_millis(2), grace: Duration::from_millis(100), ..Options::default() });
    let mut server = serve(&stage).await;
    stage.accepted(&[("message", "x")]).await;
    let mut worker = stage.worker().await;
    worker.start().await;
    let mut viewer = ask(server.address, &format!("GET /agents/echo/runs/{}/resume HTTP/1.1\r\nhost: x\r\n\r\n", worker.run_id)).await;
    read_to(&mut viewer, "event: subscribed").await;
    let line = "x".repeat(24 * 1024 * 1024);
    worker.say(&[&line]).await;
    read_to(&mut viewer, "xxx").await;
    server.stop.take().unwrap().send(()).unwrap();
    tokio::time::timeout(LIMIT, server.task).await.expect("the server ends").unwrap().unwrap();
    drop(viewer);
}

#[tokio::test]
async fn a_client_that_writes_before_it_reads_hears_why_it_is_refused() {
    let stage = Stage::new();
    let server = serve(&stage).await;
    let body = format!("{{\"message\": \"{}\"}}", "x".repeat(40 * 1024 * 1024));
    for (agent, status) in [("nobody", "404"), ("echo", "413")] {
        let head =
            format!("POST /agents/{agent}/runs HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
        let mut client = ask(server.address, &head).await;
        client.write_all(body.as_bytes()).await.unwrap();
        assert!(read_to(&mut client, "detail").await.starts_with(&format!("HTTP/1.1 {status}")));
    }
}

#[tokio::test]
async fn a_client_that_goes_away_cancels_nothing() {
    let stage = Stage::new();
    let server = serve(&stage).await;
    let request =
        "POST /agents/echo/runs HTTP/1.1\r\nhost: x\r\ncontent-type: application/x-www-form-urlencoded\r\ncontent-length: 9\r\n\r\nmessage=x";
    let mut client = ask(server.address, request).await;
    read_to(&mut client, "text/event-stream").await;
    drop(client);
    let mut worker = stage.worker().await;
    let run = worker.run_id;
    worker.start().await;
    worker.complete("done").await;
    assert_eq!(stage.get(&format!("/agents/echo/runs/{run}")).await.json()["status"], "COMPLETED");
}

/// Reads until the server has closed the connection.
async fn read_to_end(stream: &mut TcpStream, limit: Duration) -> String {
    let mut got = Vec::new();
    let read = tokio::time::timeout(limit, stream.read_to_end(&mut got)).await.expect("the server closes it");
    assert!(read.is_ok() || !got.is_empty(), "{read:?}");
    String::from_utf8_lossy(&got).into_owned()
}

#[tokio::test]
async fn a_connection_on_which_no_head_comes_is_closed_and_one_that_is_served_is_not() {
    let stage = Stage::with(Options { head_limit: Duration::from_millis(300), ..Options::default() });
    let server = serve(&stage).await;
    let run = stage.accepted(&[("message", "x")]).await;
    let mut viewer = ask(server.address, &format!("GET /agents/echo/runs/{run}/resume HTTP/1.1\r\nhost: x\r\n\r\n")).await;
    read_to(&mut viewer, "event: subscribed").await;
    for head in ["", "GET /health HTTP/1.1\r\nhost: x\r\n"] {
        let mut silent = ask(server.address, head).await;
        assert!(!read_to_end(&mut silent, LIMIT).await.contains("200"), "{head:?}");
    }
    let mut idle = ask(server.address, "GET /health HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(read_to_end(&mut idle, LIMIT).await.starts_with("HTTP/1.1 200"));
    stage.worker().await.complete_at_once().await;
    read_to(&mut viewer, "RunCompleted").await;
}

/// Nobody's key.
fn guarded() -> Stage {
    let keys = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(keys.path(), format!("[keys.a]\nsha256 = \"{}\"\nscopes = [\"agents:run\"]\n", "0".repeat(64))).unwrap();
    let path = keys.path().to_str().unwrap().to_owned();
    let mut from = adapters::config::Variables::new(|name: &str| match name {
        "SANDLOG_AUTH" => Some("key".to_owned()),
        "SANDLOG_AUTH_KEYS" => Some(path.clone()),
        _ => None,
    });
    let settings = api::auth::Settings::read(&mut from, None);
    from.done(()).unwrap();
    Stage::guarded(api::auth::Auth::new(&settings).unwrap())
}

#[tokio::test]
async fn who_is_not_known_is_answered_at_once_and_holds_no_connection() {
    let stage = guarded();
    let server = serve(&stage).await;
    for (path, status) in [("/agents/echo/runs", "401"), ("/nowhere", "401"), ("/health", "405")] {
        let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 20000000000\r\n\r\n");
        // A body that does not come. Five seconds are less than what a client that is known gets for it.
        let mut waits = ask(server.address, &head).await;
        let answer = read_to_end(&mut waits, Duration::from_secs(5)).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")) && answer.contains("connection: close"), "{answer}");
        // One that does not end.
        let (mut endless, chunk, mut sent) = (ask(server.address, &head).await, vec![b'x'; 1024 * 1024], 0);
        while endless.write_all(&chunk).await.is_ok() {
            sent += chunk.len();
            assert!(sent < 64 * 1024 * 1024, "{path}: all of it is read");
        }
    }
}

#[tokio::test]
async fn who_is_not_known_and_writes_before_reading_hears_so_too() {
    let stage = guarded();
    let server = serve(&stage).await;
    let body = vec![b'x'; 6 * 1024 * 1024];
    let mut client = ask(server.address, &format!("POST /agents/echo/runs HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", body.len())).await;
    client.write_all(&body).await.unwrap();
    assert!(read_to_end(&mut client, LIMIT).await.starts_with("HTTP/1.1 401"));
}

#[tokio::test]
async fn a_connection_gathers_no_more_than_a_little_in_either_direction() {
    let stage = Stage::new();
    let server = serve(&stage).await;
    for (length, status) in [(32 * 1024, "200"), (300 * 1024, "431")] {
        let mut client = TcpStream::connect(server.address).await.unwrap();
        let request = format!("GET /health HTTP/1.1\r\nhost: x\r\nx-long: {}\r\n\r\n", "x".repeat(length));
        // A server that has read enough answers, and may close before all is written.
        let _ = client.write_all(request.as_bytes()).await;
        let answer = read_to(&mut client, "\r\n\r\n").await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
    }
}

#[tokio::test]
async fn who_is_to_stop_says_so_and_serves_on_for_a_while() {
    let stage = Stage::with(Options { drain: Duration::from_secs(3), ..Options::default() });
    let Server { address, stop, task } = serve(&stage).await;
    let status = async |path: &str| {
        let mut client = ask(address, &format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n")).await;
        read_to(&mut client, "\r\n\r\n").await[9..12].to_owned()
    };
    assert_eq!(status("/health").await, "200");
    drop(stop);
    eventually(|| async { status("/health").await == "503" }).await;
    assert_eq!(status("/agents").await, "200", "others are served as ever");
    tokio::time::timeout(LIMIT, task).await.expect("it ends").unwrap().unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}

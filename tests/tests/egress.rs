//! Agents that ask the outside, through whole deployments.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc;
use std::time::Duration;

use e2e::deployment::agents;
use e2e::http::{ENDED, Submit, text};
use e2e::{Deployment, Shape, traces};

const KEY: &str = "the-real-key-b1946ac92492d234";

/// A model's API that answers each request by numbers, slowly, and tells of the keys that came.
fn upstream() -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("its address"));
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, tell) = (stream.expect("a connection"), tell.clone());
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stream.try_clone().expect("a connection"));
                let (mut line, mut length) = (String::new(), 0);
                while reader.read_line(&mut line).is_ok_and(|n| n > 2) {
                    if let Some(key) = line.strip_prefix("x-api-key: ") {
                        let _ = tell.send(key.trim().to_owned());
                    }
                    length = line.strip_prefix("content-length: ").map_or(length, |text| text.trim().parse().expect("a length"));
                    line.clear();
                }
                let _ = reader.read_exact(&mut vec![0; length]);
                let _ = stream
                    .write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n");
                for i in 0..60 {
                    let event = format!("data: {i}\n");
                    let _ = write!(stream, "{:x}\r\n{event}\r\n", event.len());
                    std::thread::sleep(Duration::from_millis(25));
                }
                let _ = stream.write_all(b"0\r\n\r\n");
            });
        }
    });
    (url, told)
}

fn expected() -> String {
    (0..60).map(|i| format!("data: {i}\n")).collect()
}

#[tokio::test]
async fn an_agent_asks_the_outside_without_a_key_and_nothing_is_left_of_it() {
    let (url, keys) = upstream();
    let more = [("ANTHROPIC_API_KEY", KEY), ("SANDLOG_UPSTREAM_ANTHROPIC", url.as_str())];
    let deployment = Deployment::with(Shape::Embedded, &more).await;
    let run = deployment.http().foreground(Submit::message("hello").agent("asks")).await;
    assert_eq!(run["content"].as_str(), Some(expected().as_str()));
    assert_eq!(keys.recv().expect("a key"), KEY);
    assert!(traces::of(&deployment.data()).iter().any(|trace| trace.contains("sandlog-egress")));
    assert!(!deployment.apis[0].log().contains(KEY));
    // Its end is the end of egress.
    deployment.stop().await;
}

#[tokio::test]
async fn an_answer_outlives_the_worker_and_comes_once() {
    let (url, _keys) = upstream();
    // The client here follows runs of the agent echo.
    let agents = std::fs::read_to_string(agents()).expect("the agents");
    let asks = agents.split_once("[agents.asks]").map(|(_, asks)| format!("[agents.echo]{asks}")).expect("the agent asks");
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(asks.as_bytes()).expect("the agent written");
    let more = [
        ("ANTHROPIC_API_KEY", KEY),
        ("SANDLOG_UPSTREAM_ANTHROPIC", url.as_str()),
        ("SANDLOG_EGRESS_LINGER_SECONDS", "1"),
        ("SANDLOG_AGENTS", file.path().to_str().expect("a path")),
    ];
    let mut deployment = Deployment::with(Shape::Apart { apis: 1, workers: 1 }, &more).await;
    let http = deployment.http();
    let head = http.stream(Submit::message("hello"), Some(6)).await;
    deployment.workers.remove(0).kill().await;
    deployment.add_worker().await;
    let run = http.wait(&head.run_id(), &ENDED).await;
    assert_eq!((text(&run, "status").as_str(), run["content"].as_str()), ("COMPLETED", Some(expected().as_str())));
    assert_eq!(run["attempt"], 1);
    deployment.stop().await;
}

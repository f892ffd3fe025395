//! The client against a server that cuts streams, repeats frames and goes away.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::screen::tests::Paper;
use super::{Accepted, Client, ClientError, Ending, Screen, fault};

/// What the server does with one connection to /resume.
enum Script {
    /// Frames with these indexes, then the end of the stream; the last frame of the run is 9.
    Frames(&'static [u64]),
    /// Half a frame, then a reset.
    Torn(u64),
    /// No answer at all.
    Closed,
    Status(u16),
}

/// A server that plays the scripts in turn and notes what it was asked for.
struct Stage {
    url: String,
    asked: Arc<Mutex<Vec<String>>>,
}

async fn stage(scripts: Vec<Script>, status: &'static str) -> Stage {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let asked = Arc::new(Mutex::new(Vec::new()));
    let (noted, mut scripts) = (asked.clone(), VecDeque::from(scripts));
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let line = request(&mut socket).await;
            let answer = if line.contains("/resume") {
                noted.lock().expect("notes").push(line);
                play(scripts.pop_front().expect("a script for each connection"))
            } else {
                plain(200, &json!({"status": status, "detail": "x"}).to_string())
            };
            let _ = socket.write_all(answer.as_bytes()).await;
        }
    });
    Stage { url, asked }
}

async fn request(socket: &mut TcpStream) -> String {
    let mut lines = BufReader::new(socket).lines();
    let first = lines.next_line().await.expect("a request").unwrap_or_default();
    while lines.next_line().await.expect("a header").is_some_and(|line| !line.is_empty()) {}
    first
}

fn plain(status: u16, body: &str) -> String {
    format!("HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

fn play(script: Script) -> String {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n";
    match script {
        // The stream's end is the connection's.
        Script::Frames(indexes) => {
            let frames: String = indexes.iter().map(|index| frame(*index)).collect();
            format!("{head}\r\n: hello\n\nretry: 1\nevent: subscribed\ndata: {{}}\n\n{frames}")
        }
        // Less than what was announced: the body's end is an error.
        Script::Torn(index) => format!("{head}content-length: 100000\r\n\r\n{}id: {}\nevent: Run", frame(index), index + 1),
        Script::Closed => String::new(),
        Script::Status(status) => plain(status, r#"{"detail":"Run not found"}"#),
    }
}

fn frame(index: u64) -> String {
    let event = match index {
        0 => "RunStarted",
        9 => "RunCompleted",
        _ => "RunContent",
    };
    let content = if index == 9 { "12345678".to_owned() } else { index.to_string() };
    format!("id: {index}\nevent: {event}\ndata: {}\n\n", json!({"event": event, "event_index": index, "content": content}))
}

async fn follow(stage: &Stage) -> (Result<Ending, ClientError>, String) {
    let paper = Paper::default();
    let mut screen = Screen::new(Box::new(paper.clone()), false);
    let run = Accepted { agent: "a/b".into(), run_id: "r".into(), session_id: "s".into() };
    let ended = Client::new(&stage.url, None).expect("a client").follow(&run, &mut screen).await;
    (ended, paper.text())
}

#[tokio::test]
async fn a_stream_that_is_cut_goes_on_after_the_last_frame_shown() {
    let scripts = vec![
        Script::Frames(&[0, 1, 2]),
        Script::Torn(3),
        Script::Closed,
        Script::Status(503),
        Script::Frames(&[]),
        Script::Frames(&[2, 3, 4, 5]),
        Script::Frames(&[7]),
        Script::Frames(&[6, 7, 8, 9]),
    ];
    let stage = stage(scripts, "RUNNING").await;
    let (ended, shown) = follow(&stage).await;
    assert_eq!(ended.expect("no fault"), Ending::Completed);
    assert!(shown.starts_with("-- started\n12345678\n-- COMPLETED after "), "{shown}");
    let asked = stage.asked.lock().expect("notes").clone();
    let after: Vec<Option<&str>> = asked.iter().map(|line| line.split_once("last_event_index=")?.1.split(' ').next()).collect();
    assert_eq!(after, [None, Some("2"), Some("3"), Some("3"), Some("3"), Some("3"), Some("5"), Some("5")]);
    assert!(asked[0].starts_with("GET /agents/a%2Fb/runs/r/resume "), "{}", asked[0]);
}

#[tokio::test]
async fn a_run_that_ended_without_frames_left_is_over() {
    let stage = stage(vec![Script::Frames(&[0]), Script::Frames(&[])], "CANCELLED").await;
    assert_eq!(follow(&stage).await.0.expect("no fault"), Ending::Cancelled);
}

#[tokio::test]
async fn a_run_that_ended_between_two_connections_is_shown_to_its_end() {
    let stage = stage(vec![Script::Frames(&[0, 1, 2, 3, 4, 5, 6, 7, 8]), Script::Frames(&[9])], "COMPLETED").await;
    let (ended, shown) = follow(&stage).await;
    assert_eq!(ended.expect("no fault"), Ending::Completed);
    assert!(shown.contains("10 frames"), "{shown}");
}

#[tokio::test]
async fn an_unknown_run_is_told_at_once() {
    let stage = stage(vec![Script::Status(404)], "PENDING").await;
    assert_eq!(follow(&stage).await.0.expect_err("a fault").to_string(), "Run not found");
}

#[test]
fn a_field_that_is_refused_is_told_as_text() {
    assert_eq!(fault(&json!({ "loc": ["body", "message"], "msg": "Field required", "type": "missing" })), "message: Field required");
    assert_eq!(fault(&json!("?")), "request: not valid");
}

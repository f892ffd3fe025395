//! As much HTTP/1.1 as a client of the API speaks: one request after the other on a connection, answers whole or as server-sent events.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::answer::{self, Answer, Step};
use super::{Asked, State};

pub(super) async fn serve(listener: TcpListener, state: Arc<State>) {
    // Dropped with this task, it ends the connections.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((stream, _)) = accepted {
                    let state = Arc::clone(&state);
                    // A client that goes away is no fault of a test.
                    connections.spawn(async move { talk(stream, &state).await.is_ok() });
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn talk(stream: TcpStream, state: &State) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    while let Some(asked) = read(&mut stream).await? {
        let answer = answer::to(&asked, state);
        state.asked.lock().expect("the requests").push(asked);
        if !write(stream.get_mut(), answer).await? {
            return Ok(());
        }
    }
    Ok(())
}

async fn read(stream: &mut BufReader<TcpStream>) -> std::io::Result<Option<Asked>> {
    let mut line = String::new();
    if stream.read_line(&mut line).await? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let mut body = Vec::new();
    if headers.get("transfer-encoding").is_some_and(|coding| coding.contains("chunked")) {
        while read_chunk(stream, &mut body).await? {}
    } else if let Some(length) = headers.get("content-length").and_then(|length| length.parse().ok()) {
        body = vec![0; length];
        stream.read_exact(&mut body).await?;
    }
    Ok(Some(Asked { method, path, headers, body: serde_json::from_slice(&body).unwrap_or(Value::Null) }))
}

async fn read_chunk(stream: &mut BufReader<TcpStream>, body: &mut Vec<u8>) -> std::io::Result<bool> {
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    let length = usize::from_str_radix(line.trim().split(';').next().unwrap_or_default(), 16).map_err(std::io::Error::other)?;
    let start = body.len();
    body.resize(start + length, 0);
    stream.read_exact(&mut body[start..]).await?;
    stream.read_line(&mut line).await?;
    Ok(length > 0)
}

/// Whether the connection can take another request.
async fn write(stream: &mut TcpStream, answer: Answer) -> std::io::Result<bool> {
    let steps = match answer {
        Answer::Whole { status, body } => {
            let body = body.to_string();
            let head = format!(
                "HTTP/1.1 {status} Stand-in\r\ncontent-type: application/json\r\nrequest-id: req_standin\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            stream.write_all(format!("{head}{body}").as_bytes()).await?;
            return Ok(true);
        }
        Answer::Streamed(steps) => steps,
    };
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nrequest-id: req_standin\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await?;
    for step in steps {
        match step {
            Step::Event(event) => {
                let event = format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default());
                stream.write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes()).await?;
            }
            Step::Wait(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
            Step::Hang => std::future::pending().await,
            // No last chunk: the client can tell.
            Step::Cut => return Ok(false),
        }
    }
    stream.write_all(b"0\r\n\r\n").await?;
    Ok(true)
}

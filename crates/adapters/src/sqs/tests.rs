//! The ring against a queue that is a listener of the test's own. The real thing is asked in the end-to-end tests.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use aws_sdk_sqs::config::{Credentials, SharedCredentialsProvider};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

use super::*;

/// What came in: batches of sessions.
type Seen = Arc<Mutex<Vec<Vec<Uuid>>>>;

async fn queue(status: u16) -> (Client, Seen) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let seen = Seen::default();
    let kept = seen.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, status, kept.clone()));
        }
    });
    let credentials = SharedCredentialsProvider::new(Credentials::new("id", "key", None, None, "test"));
    let config = aws_sdk_sqs::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .credentials_provider(credentials)
        .http_client(Builder::new().build_http())
        .endpoint_url(url);
    (Client::from_conf(config.build()), seen)
}

async fn answer(mut stream: TcpStream, status: u16, seen: Seen) {
    let mut bytes = Vec::new();
    while stream.read_buf(&mut bytes).await.is_ok_and(|read| read > 0) {
        let text = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length: usize = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap().parse().unwrap();
        if body.len() < length {
            continue;
        }
        let request: Value = serde_json::from_slice(&bytes[head.len() + 4..]).unwrap();
        let entries = request["Entries"].as_array().unwrap();
        let session = |entry: &Value| {
            let body: Value = serde_json::from_str(entry["MessageBody"].as_str().unwrap()).unwrap();
            body["session"].as_str().unwrap().parse().unwrap()
        };
        seen.lock().unwrap().push(entries.iter().map(session).collect());
        let ok: Vec<Value> = entries.iter().map(|entry| json!({"Id": entry["Id"], "MessageId": "m", "MD5OfMessageBody": "d"})).collect();
        let body = json!({"Successful": ok, "Failed": []}).to_string();
        let head = format!("HTTP/1.1 {status} X\r\ncontent-type: application/x-amz-json-1.0\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        bytes.clear();
    }
}

#[tokio::test]
async fn an_awaited_ring_is_in_the_queue_when_it_returns() {
    let (client, seen) = queue(200).await;
    let ring = Sqs::with(client, "http://queue".into(), Sending::Awaited);
    let session = Uuid::new_v4();
    ring.ring(session).await;
    assert_eq!(*seen.lock().unwrap(), [[session]]);
}

#[tokio::test]
async fn many_rings_go_in_full_batches_and_none_is_lost() {
    let (client, seen) = queue(200).await;
    let ring = Sqs::with(client, "http://queue".into(), Sending::Behind);
    let sessions: BTreeSet<Uuid> = (0..95).map(|_| Uuid::new_v4()).collect();
    for session in &sessions {
        ring.ring(*session).await;
        ring.ring(*session).await;
    }
    let limit = Instant::now() + Duration::from_secs(20);
    while seen.lock().unwrap().iter().flatten().collect::<BTreeSet<_>>().len() < sessions.len() {
        assert!(Instant::now() < limit, "{seen:?}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let batches = seen.lock().unwrap().clone();
    assert!(batches.iter().all(|batch| batch.len() <= batch::FULL), "{batches:?}");
    assert!(batches.len() <= 12, "{} batches", batches.len());
}

#[tokio::test]
async fn a_queue_that_refuses_or_is_away_is_survived() {
    let (client, seen) = queue(400).await;
    Sqs::with(client, "http://queue".into(), Sending::Awaited).ring(Uuid::new_v4()).await;
    assert_eq!(seen.lock().unwrap().len(), 1, "it was asked");
    let nowhere = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let config = aws_sdk_sqs::Config::builder().behavior_version(BehaviorVersion::latest()).region(Region::new("x"));
    let config = config.credentials_provider(Credentials::new("id", "key", None, None, "test")).http_client(Builder::new().build_http());
    let client = Client::from_conf(config.endpoint_url(format!("http://{nowhere}")).build());
    Sqs::with(client, "http://queue".into(), Sending::Awaited).ring(Uuid::new_v4()).await;
}

#[test]
fn a_queue_of_aws_says_its_region() {
    let region = |url| region_of(url).map(|region| region.to_string());
    assert_eq!(region("https://sqs.eu-west-1.amazonaws.com/123456789012/ring").as_deref(), Some("eu-west-1"));
    assert_eq!(region("https://sqs.cn-north-1.amazonaws.com.cn/1/ring").as_deref(), Some("cn-north-1"));
    assert_eq!(region("http://127.0.0.1:4566/000000000000/ring"), None);
    assert_eq!(region("https://amazonaws.com/x"), None);
}

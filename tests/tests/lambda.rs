//! The two functions under the Lambda runtime, as `cargo lambda watch` emulates it.

use std::time::{Duration, Instant};

use e2e::deployment::{Folder, agents};
use e2e::functions::{Program, Watch, queue_event};
use e2e::http::{ENDED, Submit, body, frames, text};
use e2e::{Database, traces};
use futures_util::StreamExt;
use reqwest::{Method, StatusCode};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

fn variables(database: &Database, folder: &Folder) -> Vec<(String, String)> {
    vec![
        ("DATABASE_URL".into(), database.functions_url()),
        ("DATABASE_MIGRATE_URL".into(), database.owner_url()),
        ("SANDLOG_DATA_DIR".into(), folder.path().join("data").display().to_string()),
        ("SANDLOG_CHECKPOINTS".into(), format!("file://{}", folder.path().join("checkpoints").display())),
        ("SANDLOG_AGENTS".into(), agents().display().to_string()),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn cargo_lambda_watch_takes_submissions_streams_live_and_drives_a_run_by_a_message() {
    let (database, folder) = (Database::create(), Folder::new());
    let watch = Watch::start(&variables(&database, &folder), folder.path()).await;
    let http = watch.http();
    let accepted = http.background(Submit::message("tick 5 0.4\nself")).await;
    let (run_id, session) = (text(&accepted, "run_id"), text(&accepted, "session_id"));

    // A viewer, before any worker runs: when does what arrive?
    let stream = http.request(Method::GET, 0, &format!("/agents/echo/runs/{run_id}/resume")).send().await.expect("an answer");
    let viewer = tokio::spawn(async move {
        let (mut chunks, mut seen, mut arrivals) = (stream.bytes_stream(), String::new(), Vec::new());
        while let Some(chunk) = chunks.next().await {
            seen.push_str(std::str::from_utf8(&chunk.expect("the stream goes on")).expect("UTF-8"));
            let ticks = seen.matches("\"event\":\"RunContent\",\"content\":\"tick ").count();
            arrivals.resize(ticks.max(arrivals.len()), Instant::now());
        }
        (arrivals, Instant::now())
    });
    let ring = json!({ "session": session }).to_string();
    let answer = watch.invoke(&queue_event(&[&ring, "no ring at all"])).await;
    assert_eq!(answer, json!({ "batchItemFailures": [] }), "what is no ring is not made to come again");
    let (arrivals, ended) = viewer.await.expect("the viewer");
    assert_eq!(arrivals.len(), 5);
    assert!(arrivals.windows(2).all(|pair| pair[1] - pair[0] > Duration::from_millis(100)), "each as it is printed: {arrivals:?}");
    assert!(ended - arrivals[0] > Duration::from_millis(1500), "the first long before the end");

    let run = http.wait(&run_id, &ENDED).await;
    let whole = http.resume(&run_id, None, 0).await.whole(0);
    assert_eq!((run["status"].as_str(), run["content"].as_str()), (Some("COMPLETED"), Some(whole.text().as_str())), "{run}");
    assert!(whole.text().contains("NoNewPrivs:\t1"), "in a sandbox: {whole:?}");

    // A stream that was asked for with the submission, of a run that another message drives; and then the schedule.
    let submitted = http.submit(Submit::message("say hi").field("session_id", &session).field("stream", true)).await;
    let streaming = tokio::spawn(frames(submitted, None));
    assert_eq!(watch.invoke(&queue_event(&[&ring])).await, json!({ "batchItemFailures": [] }));
    assert_eq!(streaming.await.expect("the stream").whole(0).text(), "hi\n");
    assert_eq!(watch.invoke(&json!({ "sweep": true })).await, json!({ "batchItemFailures": [] }));

    // Clients that leave before they have their answer break the function's connections to its runtime; others are answered all the same.
    for read in [false, true].repeat(40) {
        let mut left = TcpStream::connect(watch.address()).await.expect("a connection");
        left.write_all(b"GET /lambda-url/api/health HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("a request");
        if read {
            left.read_u8().await.expect("an answer's beginning");
        }
    }
    assert_eq!(body(http.get("/agents/echo").await, StatusCode::OK).await["id"], "echo");

    // Where the log cannot be asked, the queue keeps what rang.
    drop(database);
    assert_eq!(watch.invoke(&queue_event(&[&ring, "no ring at all"])).await, json!({ "batchItemFailures": [{ "itemIdentifier": "m0" }] }));
    watch.stop().await;
    traces::gone(folder.path(), Duration::from_secs(30)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_programs_are_a_listener_and_a_poller_where_there_is_no_lambda() {
    let (database, folder) = (Database::create(), Folder::new());
    let variables = variables(&database, &folder);
    let api = Program::start("api", &variables).await;
    let worker = Program::start("worker", &variables).await;
    assert_eq!(worker.line, "worker ready");
    let run = api.http().foreground(Submit::message("say hi")).await;
    assert_eq!((run["status"].as_str(), run["content"].as_str()), (Some("COMPLETED"), Some("hi\n")), "{run}");
    worker.stop().await;
    api.stop().await;
    traces::gone(folder.path(), Duration::from_secs(30)).await;
}

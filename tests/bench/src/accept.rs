//! Submissions a second over HTTP, in one api process.

use std::time::{Duration, Instant};

use e2e::{Deployment, Shape};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::pgbench::{self, SECONDS};
use crate::report::{Times, ms, row, title};

const BODY: &str = "message=say+hi&background=true&stream=false";

pub(crate) async fn run() {
    title("accept: submissions a second over HTTP, one api process, durable commits (aim: 0.7 of the same call by pgbench at 32 clients)");
    // With a limit, which is looked at each time, and room for all that come.
    let deployment = Deployment::with(Shape::Apart { apis: 1, workers: 0 }, &[("SANDLOG_QUEUE_LIMIT", "100000000")]).await;
    let database = deployment.database.as_ref().expect("a database");
    database.rows(include_str!("../sql/tables.sql"));
    let http = deployment.http();
    http.background(e2e::http::Submit::message("say hi")).await;
    // Of the size that a submission has.
    let data = database.rows("select data from sandlog.events where seq = 0").remove(0).join("|").replace('\'', "''");
    let address = http.urls[0].trim_start_matches("http://").to_owned();
    for clients in [1, 8, 32] {
        let same = pgbench::run(&database.functions_url(), &include_str!("../sql/submit.sql").replace("{DATA}", &data), clients);
        let least = pgbench::run(&database.functions_url(), &include_str!("../sql/least_accept.sql").replace("{DATA}", &data), clients);
        let mut times = load(&address, clients).await;
        let figure = times.count() as f64 / SECONDS as f64;
        let more = format!("p50 {}, p99 {}", ms(times.percentile(50)), ms(times.percentile(99)));
        row(&format!("{clients} clients"), figure, "/s", &[("same call", same), ("least transaction", least)], &more);
    }
    deployment.stop().await;
}

/// Clients that send the next submission when the answer to the last one is there, each on a connection of its own.
async fn load(address: &str, clients: usize) -> Times {
    let until = Instant::now() + Duration::from_secs(SECONDS);
    let mut running = JoinSet::new();
    for _ in 0..clients {
        let address = address.to_owned();
        running.spawn(async move {
            let mut stream = TcpStream::connect(&address).await.expect("a connection");
            stream.set_nodelay(true).expect("an option");
            let request = format!(
                "POST /agents/echo/runs HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/x-www-form-urlencoded\r\ncontent-length: {}\r\n\r\n{BODY}",
                BODY.len()
            );
            let (mut times, mut buffer) = (Times::default(), Vec::new());
            while Instant::now() < until {
                let start = Instant::now();
                stream.write_all(request.as_bytes()).await.expect("a request");
                answer(&mut stream, &mut buffer).await;
                times.add(start.elapsed());
            }
            times
        });
    }
    let mut all = Times::default();
    while let Some(times) = running.join_next().await {
        all.extend(times.expect("a client"));
    }
    all
}

/// Reads one answer; it must be 202.
async fn answer(stream: &mut TcpStream, buffer: &mut Vec<u8>) {
    buffer.clear();
    loop {
        assert!(stream.read_buf(buffer).await.expect("an answer") > 0, "the connection ended");
        let text = String::from_utf8_lossy(buffer);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        assert!(head.starts_with("HTTP/1.1 202"), "{text}");
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
        if body.len() >= length {
            return;
        }
    }
}

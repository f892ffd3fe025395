//! From the commit of a frame to its arrival at a viewer over HTTP, by each carrier, beside what the servers themselves take.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use adapters::postgres::{Postgres, connect, listen};
use adapters::redis::{connect as carry_by_redis, prefix_of};
use adapters::signals::Hub;
use adapters::{Driver, Reader, Signal, Signals};
use e2e::{Deployment, Http, Redis, Shape};
use runs::{Event, Frame, Output, Recorded};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::append::submit;
use crate::report::{Times, ms, title};

const RUNS: usize = 100;
const FRAMES: usize = 300;
/// Between two commits, so that what is measured is the way and no queue.
const PACE: Duration = Duration::from_millis(10);

type Committed = Arc<Mutex<HashMap<(Uuid, u32), Instant>>>;

pub(crate) async fn run() {
    title(
        "tail: from a frame's commit to its arrival at a viewer (aims: p50 under 3 ms with Redis, 15 ms with LISTEN; reads do not grow with viewers)",
    );
    for (name, shape) in [
        ("redis", Shape::WithRedis { apis: 1, workers: 0 }),
        ("listen", Shape::Apart { apis: 1, workers: 0 }),
        ("poll", Shape::Pooled { apis: 1, workers: 0 }),
    ] {
        let deployment = Deployment::start(shape).await;
        let (url, http) = (deployment.database.as_ref().expect("a database").functions_url(), deployment.http());
        let log = connect(&url, "sandlog", 8).await.expect("the log");
        let deployment_id = log.health().await.expect("the log").deployment;
        let hub = match &deployment.redis {
            Some(server) => carry_by_redis(&server.url(), &prefix_of(deployment_id), Duration::from_secs(60)).expect("a URL"),
            None if name == "listen" => listen(&url, "sandlog", Arc::clone(&log)),
            None => Hub::poll(),
        };
        if name != "poll" {
            hub.carried().wait_for(|carried| carried.up).await.expect("its carrier");
        }
        if let Some(server) = &deployment.redis {
            let mut times = through_redis(server).await;
            println!("  {:<22} p50 {}, p99 {}", "XADD to XREAD", ms(times.percentile(50)), ms(times.percentile(99)));
            let mut times = through_postgres(&log).await;
            println!("  {:<22} p50 {}, p99 {}", "INSERT to SELECT", ms(times.percentile(50)), ms(times.percentile(99)));
        }
        let api = deployment.apis[0].pid();
        for viewers in [1, 100, 1000] {
            measure(name, viewers, &log, &hub, &http, api).await;
        }
        deployment.stop().await;
    }
}

async fn measure(name: &str, viewers: usize, log: &Arc<Postgres>, hub: &Hub, http: &Http, api: u32) {
    let mut runs = Vec::new();
    for _ in 0..RUNS.min(viewers) {
        runs.push(submit(log).await);
    }
    let (committed, before): (Committed, u64) = (Arc::default(), resident(api));
    let mut viewing = JoinSet::new();
    let (ready, mut waiting) = tokio::sync::mpsc::channel(viewers);
    for n in 0..viewers {
        viewing.spawn(view(http.clone(), runs[n % runs.len()], ready.clone()));
    }
    for _ in 0..viewers {
        waiting.recv().await.expect("a viewer");
    }
    let each = resident(api).saturating_sub(before) / viewers as u64;
    let reads = reads_of(http).await;
    let mut next: HashMap<Uuid, u32> = HashMap::new();
    for n in 0..FRAMES {
        let run_id = runs[n % runs.len()];
        let index = next.entry(run_id).or_default();
        let event = Event::Output(Output { frames: vec![Frame::content("a line of output\n".into())], journal: 1, parser: serde_json::Value::Null });
        let at = log.append(run_id, *index + 1, *index, &event).await.expect("appended");
        committed.lock().expect("a lock").insert((run_id, *index), Instant::now());
        hub.send(Signal::committed(run_id, Arc::new(Recorded { seq: *index + 1, first_index: *index, at, event })));
        *index += 1;
        tokio::time::sleep(PACE).await;
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let reads = reads_of(http).await - reads;
    viewing.abort_all();
    let (mut times, committed) = (Times::default(), committed.lock().expect("a lock").clone());
    for (key, arrived) in ARRIVED.lock().expect("a lock").drain(..) {
        times.add(committed.get(&key).map_or(Duration::ZERO, |at| arrived.saturating_duration_since(*at)));
    }
    let what = format!("{name}, {viewers} viewers");
    let (p50, p99) = (ms(times.percentile(50)), ms(times.percentile(99)));
    let delivered = times.count();
    println!("  {what:<22} p50 {p50}, p99 {p99}   {delivered} frames arrived, {reads} reads of the log, {each} KiB a viewer");
}

/// What came, of all viewers.
static ARRIVED: Mutex<Vec<((Uuid, u32), Instant)>> = Mutex::new(Vec::new());

async fn view(http: Http, run_id: Uuid, ready: tokio::sync::mpsc::Sender<()>) {
    let path = format!("/agents/echo/runs/{run_id}/resume");
    let mut answer = http.request(reqwest::Method::GET, 0, &path).send().await.expect("a stream");
    while let Ok(Some(chunk)) = answer.chunk().await {
        let (now, text) = (Instant::now(), String::from_utf8_lossy(&chunk).into_owned());
        if text.contains("event: subscribed") {
            ready.send(()).await.expect("somebody waits");
        }
        // A chunk of so small a frame is whole.
        let indexes = text.lines().filter_map(|line| line.strip_prefix("id: ")?.parse().ok());
        ARRIVED.lock().expect("a lock").extend(indexes.map(|index| ((run_id, index), now)));
    }
}

/// KiB.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse().ok()).expect("its memory")
}

async fn reads_of(http: &Http) -> u64 {
    let text = http.get("/metrics").await.text().await.expect("metrics");
    text.lines().find_map(|line| line.strip_prefix("sandlog_tail_reads_total ")?.parse().ok()).expect("the tail's reads")
}

/// An entry on one connection, until it is there on another that waits for it.
async fn through_redis(server: &Redis) -> Times {
    let connect = || async { TcpStream::connect(("127.0.0.1", server.port)).await.expect("redis-server") };
    let (mut writer, mut reader, mut times) = (connect().await, connect().await, Times::default());
    let _ = (writer.set_nodelay(true), reader.set_nodelay(true));
    let mut answer = vec![0; 4096];
    for n in 1..=1000 {
        let after = n - 1;
        reader.write_all(format!("XREAD BLOCK 0 STREAMS bench {after}-0\r\n").as_bytes()).await.expect("a command");
        tokio::time::sleep(Duration::from_millis(1)).await;
        let since = Instant::now();
        writer.write_all(format!("XADD bench MAXLEN ~ 256 {n}-0 e {}\r\n", "x".repeat(120)).as_bytes()).await.expect("a command");
        reader.read(&mut answer).await.map(drop).expect("an entry");
        times.add(since.elapsed());
        writer.read(&mut answer).await.map(drop).expect("an answer");
    }
    times
}

/// The commit of an event, and one read of it.
async fn through_postgres(log: &Arc<Postgres>) -> Times {
    let (run_id, mut times) = (submit(log).await, Times::default());
    for index in 0..300 {
        let event = Event::Output(Output { frames: vec![Frame::content("x".into())], journal: 1, parser: serde_json::Value::Null });
        let since = Instant::now();
        log.append(run_id, index + 1, index, &event).await.expect("appended");
        log.frames(run_id, index, 1).await.expect("read");
        times.add(since.elapsed());
    }
    times
}

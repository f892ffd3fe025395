//! From the commit of a frame to its arrival at a viewer over HTTP, by each carrier, beside what the servers themselves take.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use adapters::postgres::{Postgres, connect, listen};
use adapters::program::seal;
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
use crate::report::{Times, aim, ms, title};

const RUNS: usize = 100;
const FRAMES: usize = 300;
/// Between two commits, so that what is measured is the way and no queue.
const PACE: Duration = Duration::from_millis(10);

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
            Some(server) => {
                let seal = seal(&log).await.expect("the log");
                carry_by_redis(&server.url(), &prefix_of(deployment_id), Duration::from_secs(60), seal).expect("a URL")
            }
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
        let bench = Bench { name, api: deployment.apis[0].pid(), log, hub, http };
        let mut before = 0;
        for viewers in [1, 100, 1000] {
            bench.measure(viewers, before).await;
            // What it needs with nearly nobody: what it keeps of viewers that left is not counted as free.
            if before == 0 {
                before = resident(bench.api);
            }
        }
        deployment.stop().await;
    }
}

struct Bench {
    name: &'static str,
    api: u32,
    log: Arc<Postgres>,
    hub: Hub,
    http: Http,
}

impl Bench {
    /// `before` is the memory of the api with nearly no viewers, where that is known.
    async fn measure(&self, viewers: usize, before: u64) {
        let mut runs = Vec::new();
        for _ in 0..RUNS.min(viewers) {
            runs.push(submit(&self.log).await);
        }
        let mut viewing = JoinSet::new();
        let (ready, mut waiting) = tokio::sync::mpsc::channel(viewers);
        for n in 0..viewers {
            viewing.spawn(view(self.http.clone(), runs[n % runs.len()], ready.clone()));
        }
        for _ in 0..viewers {
            waiting.recv().await.expect("a viewer");
        }
        let each = resident(self.api).saturating_sub(before) / viewers as u64;
        let reads = reads_of(&self.http).await;
        let committed = self.commit(&runs).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        let reads = reads_of(&self.http).await - reads;
        viewing.shutdown().await;
        let mut times = Times::default();
        for (key, arrived) in ARRIVED.lock().expect("a lock").drain(..) {
            times.add(committed.get(&key).map_or(Duration::ZERO, |at| arrived.saturating_duration_since(*at)));
        }
        let memory = if before == 0 { String::new() } else { format!(", {each} KiB a viewer ({})", aim("20", each < 20)) };
        let (p50, p99, delivered) = (times.percentile(50), times.percentile(99), times.count());
        let met = match self.name {
            "redis" => format!(" ({})", aim("3 ms", p50 < Duration::from_millis(3))),
            "listen" => format!(" ({})", aim("15 ms", p50 < Duration::from_millis(15))),
            _ => String::new(),
        };
        let what = format!("{}, {viewers} viewers", self.name);
        let expected = FRAMES * viewers / runs.len();
        println!("  {what:<22} p50 {}{met}, p99 {}   {delivered} of {expected} frames arrived, {reads} reads of the log{memory}", ms(p50), ms(p99));
    }

    /// One frame after the other, and when each was committed.
    async fn commit(&self, runs: &[Uuid]) -> HashMap<(Uuid, u32), Instant> {
        let (mut committed, mut next) = (HashMap::new(), HashMap::<Uuid, u32>::new());
        for n in 0..FRAMES {
            let run_id = runs[n % runs.len()];
            let index = next.entry(run_id).or_default();
            let event =
                Event::Output(Output { frames: vec![Frame::content("a line of output\n".into())], journal: 1, parser: serde_json::Value::Null });
            let at = self.log.append(run_id, *index + 1, *index, &event).await.expect("appended");
            committed.insert((run_id, *index), Instant::now());
            self.hub.send(Signal::committed(run_id, Arc::new(Recorded { seq: *index + 1, first_index: *index, at, event })));
            *index += 1;
            tokio::time::sleep(PACE).await;
        }
        committed
    }
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

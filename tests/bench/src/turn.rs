//! Turns: how soon the first frame is there, how many no-op turns a second, and what processor time one costs.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use e2e::http::{ENDED, StatusCode, Submit, body, text};
use e2e::{Deployment, Http, Shape, eventually};
use tokio::task::JoinSet;

use crate::cpu;
use crate::report::{Times, aim, ms, ratio, title};

const FIRST_FRAMES: usize = 60;
const TURNS: usize = 200;
const FIRST_FRAME_AIM: Duration = Duration::from_millis(50);
const RATE_AIM: f64 = 50.0;

/// What a process of `bwrap true` costs: how many a second two loops start, and the processor time of one.
#[derive(Clone, Copy)]
struct Limit {
    rate: f64,
    cpu: Duration,
    /// One after the other.
    time: Duration,
}

pub(crate) async fn run() {
    cpu::adopt();
    for apart in [false, true] {
        title(if apart {
            "turn, api and worker apart (signals by LISTEN)"
        } else {
            "turn, one process (`sandlog up`), each turn in a session of its own, 8 at a time"
        });
        let limit = bwrap();
        let deployment = deployment(apart).await;
        measure(&deployment, limit).await;
        deployment.stop().await;
    }
}

async fn deployment(apart: bool) -> Deployment {
    if apart {
        return Deployment::start(Shape::Apart { apis: 1, workers: 1 }).await;
    }
    // On the same Postgres, and not on one of its own.
    let mut deployment = Deployment::start(Shape::Apart { apis: 0, workers: 0 }).await;
    deployment.add_up().await;
    deployment
}

async fn measure(deployment: &Deployment, limit: Limit) {
    let http = deployment.http();
    let mut first = first_frames(&http).await;
    let (p50, p99) = (first.percentile(50), first.percentile(99));
    println!(
        "  first frame        p50 {}, p99 {}   beside bwrap true {} ({:.1} times)   {}",
        ms(p50),
        ms(p99),
        ms(limit.time),
        ratio(p50, limit.time),
        aim("under 50 ms", p50 < FIRST_FRAME_AIM),
    );
    // Their sandboxes are gone before anything is counted.
    cleared(deployment).await;
    let ours = cpu::children();
    let postgres = postmaster(deployment);
    let before = (cpu::of_children(), cpu::of(postgres));
    let rate = rate(&http).await;
    cleared(deployment).await;
    cpu::reap_all(&ours);
    let each = |now: Duration, before: Duration| now.saturating_sub(before) / TURNS as u32;
    let (sandlog, postgres) = (each(cpu::of_children(), before.0), each(cpu::of(postgres), before.1));
    println!(
        "  no-op turns        {rate:.1} /s   beside bwrap true {:.0} /s ({:.2})   {}",
        limit.rate,
        rate / limit.rate,
        aim("50 /s", rate >= RATE_AIM)
    );
    println!(
        "  CPU of a turn      {} and Postgres {}   beside bwrap true {} ({:.1} times)",
        ms(sandlog),
        ms(postgres),
        ms(limit.cpu),
        ratio(sandlog, limit.cpu)
    );
}

async fn first_frames(http: &Http) -> Times {
    let mut first = Times::default();
    for _ in 0..FIRST_FRAMES {
        let start = Instant::now();
        let got = http.stream(Submit::message("say hi"), Some(1)).await;
        first.add(start.elapsed());
        http.wait(&got.run_id(), &ENDED).await;
    }
    first
}

/// All at once; a worker takes as many as it has room for.
async fn rate(http: &Http) -> f64 {
    let start = Instant::now();
    let mut submitting = JoinSet::new();
    for _ in 0..TURNS {
        let http = http.clone();
        submitting.spawn(async move { text(&http.background(Submit::message("say x")).await, "run_id") });
    }
    for run_id in &submitting.join_all().await {
        // Seldom: what is asked costs processor time too.
        while !ENDED.contains(&text(&body(http.run(run_id, 0).await, StatusCode::OK).await, "status").as_str()) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    TURNS as f64 / start.elapsed().as_secs_f64()
}

/// No sandbox stands, and the runners have ended.
async fn cleared(deployment: &Deployment) {
    deployment.cleared().await;
    eventually("no runner", Duration::from_secs(20), || async { (deployment.runners() == 0).then_some(()) }).await;
}

/// The process of the server that the deployment's database is on, where it is on this machine.
fn postmaster(deployment: &Deployment) -> i32 {
    let database = deployment.database.as_ref().expect("a database");
    let rows = database.rows("select split_part(pg_read_file('postmaster.pid'), chr(10), 1)");
    rows.first().and_then(|row| row.first()?.trim().parse().ok()).expect("a pid")
}

/// The same kind of sandbox, made and ended with nothing around it: one after the other, then two at a time.
fn bwrap() -> Limit {
    const EACH: usize = 100;
    let ours = cpu::children();
    let (start, before) = (Instant::now(), cpu::of_children());
    (0..EACH).for_each(|_| bwrap_true());
    let time = start.elapsed() / EACH as u32;
    // Its inner half, which does most of the work, outlives the outer one.
    cpu::reap_all(&ours);
    let cpu = cpu::of_children().saturating_sub(before) / EACH as u32;
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..EACH).for_each(|_| bwrap_true()));
        }
    });
    let rate = 2.0 * EACH as f64 / start.elapsed().as_secs_f64();
    cpu::reap_all(&ours);
    Limit { rate, cpu, time }
}

fn bwrap_true() {
    let arguments = ["--unshare-all", "--ro-bind", "/usr", "/usr", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64"];
    let done = Command::new("bwrap").args(arguments).args(["--proc", "/proc", "--dev", "/dev", "/usr/bin/true"]).stdin(Stdio::null()).status();
    assert!(done.expect("bwrap").success());
}

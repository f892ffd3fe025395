//! Turns: how soon the first frame is there, and how many no-op turns a second.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use e2e::http::{ENDED, Submit, text};
use e2e::{Deployment, Shape};
use tokio::task::JoinSet;

use crate::report::{Times, ms, row, title};

const TURNS: usize = 200;

pub(crate) async fn run() {
    title("turn: one api and one worker (aims: first frame under 50 ms, 50 no-op turns a second)");
    let deployment = Deployment::start(Shape::Apart { apis: 1, workers: 1 }).await;
    let http = deployment.http();
    let mut first = Times::default();
    for _ in 0..40 {
        let start = Instant::now();
        let got = http.stream(Submit::message("say hi"), Some(1)).await;
        first.add(start.elapsed());
        http.wait(&got.run_id(), &ENDED).await;
    }
    println!("  {:<22} p50 {}, p99 {}", "submit to first frame", ms(first.percentile(50)), ms(first.percentile(99)));

    let bwrap = bwraps();
    let (start, before) = (Instant::now(), cpu());
    let mut submitting = JoinSet::new();
    for _ in 0..TURNS {
        let http = http.clone();
        submitting.spawn(async move { text(&http.background(Submit::message("say x")).await, "run_id") });
    }
    let runs = submitting.join_all().await;
    for run_id in &runs {
        http.wait(run_id, &ENDED).await;
    }
    let (took, used) = (start.elapsed(), cpu() - before);
    let figure = TURNS as f64 / took.as_secs_f64();
    let more = format!("{} of CPU a turn, the whole machine's", ms(used / TURNS as u32));
    row("no-op turns", figure, "/s", &[("bwrap true", bwrap)], &more);
    deployment.stop().await;
}

/// The same kind of sandbox, made and ended, two at a time, with nothing around it.
fn bwraps() -> f64 {
    const EACH: usize = 100;
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..EACH {
                    let arguments =
                        ["--unshare-all", "--ro-bind", "/usr", "/usr", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64"];
                    let done = Command::new("bwrap")
                        .args(arguments)
                        .args(["--proc", "/proc", "--dev", "/dev", "/usr/bin/true"])
                        .stdin(Stdio::null())
                        .status();
                    assert!(done.expect("bwrap").success());
                }
            });
        }
    });
    2.0 * EACH as f64 / start.elapsed().as_secs_f64()
}

/// What all processors have worked since the machine started.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/stat").expect("/proc/stat");
    let ticks: Vec<u64> = stat.lines().next().unwrap_or_default().split_whitespace().skip(1).filter_map(|n| n.parse().ok()).collect();
    // All but idle and waiting for a disk, in hundredths of a second.
    let busy: u64 = ticks.iter().enumerate().filter(|(at, _)| ![3, 4].contains(at)).map(|(_, ticks)| ticks).sum();
    Duration::from_millis(busy * 10)
}

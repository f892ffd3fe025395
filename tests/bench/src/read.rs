//! What a read costs in a session of one run and in one of very many: the same.

use std::time::Instant;

use e2e::http::{Submit, text};
use e2e::{Deployment, Http, Shape};

use crate::report::{Times, ms, title};

const RUNS: usize = 2_000;
const READS: usize = 400;
const FRAMES: u32 = 200;

pub(crate) async fn run() {
    title("read: GET of a run, of a page of its session's runs, of a page of its frames; in a session of 1 run and of 2000 (aim: the same)");
    let deployment = Deployment::start(Shape::Apart { apis: 1, workers: 0 }).await;
    let http = deployment.http();
    let small = text(&http.background(Submit::message("say hi").field("session_id", "small")).await, "run_id");
    let mut large = String::new();
    for n in 0..RUNS {
        let run = text(&http.background(Submit::message("say hi").field("session_id", "large")).await, "run_id");
        if n == RUNS / 2 {
            large = run;
        }
    }
    // Frames of both, and of the session's other runs too, so that the log is as long as it would be.
    let database = deployment.database.as_ref().expect("a database");
    database.rows(&format!(
        "insert into sandlog.events (run_id, seq, type, data, first_index, frames, at)
         select r.run_id, n, 'output', jsonb_build_object('v', 1, 'journal', n, 'parser', null, 'frames', jsonb_build_array(
            jsonb_build_object('event', 'RunContent', 'content', 'a line of output' || chr(10)))), n - 1, 1, clock_timestamp()
         from sandlog.runs r cross join generate_series(1, {FRAMES}) n"
    ));
    database.rows("vacuum analyze");
    let pages = |run: &str, session: &str| {
        let of = format!("/agents/echo/runs/{run}");
        [
            ("a run", of.clone()),
            ("a page of runs", format!("/agents/echo/runs?session_id={session}&limit=1")),
            ("a page of frames", format!("{of}/events?after=99")),
        ]
    };
    for ((what, one), (_, many)) in pages(&small, "small").into_iter().zip(pages(&large, "large")) {
        let (mut in_small, mut in_large) = (Times::default(), Times::default());
        // By turns, so that what else the machine does meets both.
        for _ in 0..READS {
            in_small.add(read(&http, &one).await);
            in_large.add(read(&http, &many).await);
        }
        let (small, large) = (in_small.percentile(50), in_large.percentile(50));
        let ratio = large.as_secs_f64() / small.as_secs_f64();
        println!("  {what:<22} of 1: p50 {}, of {RUNS}: p50 {}   ({ratio:.2})", ms(small), ms(large));
    }
    let (few, many) = (stats(&http).await, RUNS);
    println!("  {:<22} with {many} runs: p50 {}", "/queue/stats", ms(few));
    deployment.stop().await;
}

async fn stats(http: &Http) -> std::time::Duration {
    let mut times = Times::default();
    for _ in 0..READS {
        times.add(read(http, "/queue/stats").await);
    }
    times.percentile(50)
}

async fn read(http: &Http, path: &str) -> std::time::Duration {
    let start = Instant::now();
    let answer = http.get(path).await;
    assert_eq!(answer.status(), 200, "{path}");
    let bytes = answer.bytes().await.expect("a body");
    assert!(bytes.len() > 20);
    start.elapsed()
}

//! Viewers that come back, while all that may carry signals fails: each sees every frame once, in order, to the one end, and all see the same.
//! Short here, long in `./dev test long`.

use std::time::Duration;

use e2e::http::{Submit, text};
use e2e::link::{Link, Weather};
use e2e::{Deployment, Redis, Shape, viewer};
use futures_util::future::join_all;
use tokio::time::sleep;

const LIMIT: Duration = Duration::from_secs(240);

/// Runs, viewers of each, lines of each run, and how often what goes wrong goes wrong.
struct Size {
    runs: usize,
    viewers: usize,
    lines: usize,
    rounds: usize,
}

#[cfg(not(feature = "long"))]
const SIZE: Size = Size { runs: 6, viewers: 3, lines: 60, rounds: 1 };
#[cfg(feature = "long")]
const SIZE: Size = Size { runs: 100, viewers: 3, lines: 400, rounds: 4 };

#[tokio::test(flavor = "multi_thread")]
async fn viewers_that_come_back_miss_nothing_whatever_becomes_of_redis() {
    let mut redis = Redis::start().await;
    let link = Link::to(&format!("127.0.0.1:{}", redis.port)).await;
    let url = format!("redis://127.0.0.1:{}", link.port);
    let shape = Shape::Apart { apis: 2, workers: 2 };
    let mut deployment = Deployment::with(shape, &[("REDIS_URL", &url), ("SANDLOG_WORKERS", "60")]).await;
    let http = deployment.http();
    let message = format!("tick {} 0.1", SIZE.lines);
    let accepted = join_all((0..SIZE.runs).map(|n| http.background(Submit::message(&message).on(n)))).await;
    let runs: Vec<String> = accepted.iter().map(|run| text(run, "run_id")).collect();
    let viewing = tokio::spawn({
        let (http, runs) = (http.clone(), runs.clone());
        async move {
            let viewers = runs.iter().flat_map(|run_id| (0..SIZE.viewers).map(|n| viewer::watch(&http, run_id, n, LIMIT)).collect::<Vec<_>>());
            join_all(viewers).await
        }
    });
    for _ in 0..SIZE.rounds {
        spoil(&mut redis, &link).await;
        // A killed api: its viewers go to the other one, and come back to it.
        let port = deployment.apis[0].url.as_deref().and_then(|url| url.rsplit(':').next()).expect("a port").to_owned();
        deployment.apis.remove(0).kill().await;
        deployment.add_api_on(&port).await;
        // It is the last one now: the order of the instances is that of their ports, which stay.
        deployment.apis.rotate_right(1);
        deployment.workers.remove(0).kill().await;
        deployment.add_worker().await;
    }
    let saw = tokio::time::timeout(LIMIT, viewing).await.expect("all end").expect("viewers");
    for (n, run_id) in runs.iter().enumerate() {
        let of_run = &saw[n * SIZE.viewers..(n + 1) * SIZE.viewers];
        for one in of_run {
            one.is_whole().unwrap_or_else(|why| panic!("run {run_id}: {why}"));
            assert_eq!(one.frames, of_run[0].frames, "two viewers of run {run_id}");
        }
        let stored = http.resume(run_id, None, n).await.whole(0);
        assert_eq!(stored.0, of_run[0].frames, "the log of run {run_id}");
        assert_eq!(stored.last_event(), "RunCompleted");
    }
    let lines: String = (1..=SIZE.lines).map(|n| format!("tick {n}\n")).collect();
    assert!(saw.iter().all(|one| e2e::Streamed(one.frames.clone()).text() == lines));
    assert!(saw.iter().any(|one| one.returns > 0), "the api that was killed had viewers");
    deployment.stop().await;
}

async fn spoil(redis: &mut Redis, link: &Link) {
    let moment = || sleep(Duration::from_millis(400));
    moment().await;
    redis.ask(&["FLUSHALL"]).await;
    moment().await;
    redis.kill();
    moment().await;
    redis.restart().await;
    for weather in [Weather::Slow(Duration::from_millis(300)), Weather::Silent, Weather::Cut] {
        link.set(weather);
        moment().await;
        link.set(Weather::Fair);
        moment().await;
    }
}

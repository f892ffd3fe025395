//! Viewers that come back, while everything that a deployment stands on fails, one after the other and at once: each sees every frame once, in order, to
//! the one end, and all see what the log has. Short here, long in `./dev test long`.

use std::fs;
use std::path::Path;
use std::time::Duration;

use e2e::http::{Submit, body, text};
use e2e::link::{Link, Weather};
use e2e::viewer::{self, Saw};
use e2e::{Deployment, Http, Postgres, Redis, Shape, Streamed, eventually, unique};
use futures_util::future::join_all;
use reqwest::StatusCode;
use serde_json::Value;
use tokio::time::{sleep, timeout};

const LIMIT: Duration = Duration::from_secs(280);

/// Runs, viewers of each, seconds between two lines of a run, and how often all that goes wrong goes wrong, for how long.
struct Size {
    runs: usize,
    viewers: usize,
    pace: &'static str,
    rounds: usize,
    moment: Duration,
}

#[cfg(not(feature = "long"))]
const SIZE: Size = Size { runs: 6, viewers: 3, pace: "0.1", rounds: 1, moment: Duration::from_millis(300) };
/// A moment of the long ones is beyond what a half-open link may take, and two of them beyond a lease.
#[cfg(feature = "long")]
const SIZE: Size = Size { runs: 100, viewers: 3, pace: "0.5", rounds: 2, moment: Duration::from_millis(2500) };

#[tokio::test(flavor = "multi_thread")]
async fn viewers_that_come_back_miss_nothing_whatever_fails_with_redis() {
    let redis = Redis::start().await;
    let link = Link::to(&format!("127.0.0.1:{}", redis.port)).await;
    miss_nothing(Some((redis, link))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn viewers_that_come_back_miss_nothing_whatever_fails_with_listen() {
    miss_nothing(None).await;
}

/// What a deployment stands on, and can lose.
struct World {
    deployment: Deployment,
    postgres: Postgres,
    redis: Option<(Redis, Link)>,
}

async fn miss_nothing(redis: Option<(Redis, Link)>) {
    let postgres = Postgres::start().await;
    let url = redis.as_ref().map(|(_, link)| format!("redis://127.0.0.1:{}", link.port));
    let more: Vec<(&str, &str)> = url.iter().map(|url| ("REDIS_URL", url.as_str())).chain([("SANDLOG_WORKERS", "60")]).collect();
    let deployment = Deployment::on(Some(&postgres.url()), Shape::Apart { apis: 2, workers: 2 }, &more).await;
    let (http, data) = (deployment.http(), deployment.data());
    // They go on until all has failed that is to fail, however long that takes here.
    let message = format!("until go {}\nsay the end", SIZE.pace);
    let accepted = join_all((0..SIZE.runs).map(|n| accepted(&http, &message, n))).await;
    let runs: Vec<String> = accepted.iter().map(|run| text(run, "run_id")).collect();
    let viewing = tokio::spawn(watch(http.clone(), runs.clone()));
    let mut world = World { deployment, postgres, redis };
    for _ in 0..SIZE.rounds {
        world.one_after_the_other().await;
        world.at_once().await;
    }
    let saw = tokio::select! {
        saw = viewing => saw.expect("viewers"),
        () = let_go(&data) => unreachable!(),
    };
    for (n, run_id) in runs.iter().enumerate() {
        let stored = http.resume(run_id, None, n).await.whole(0);
        judge(run_id, &stored, &saw[n * SIZE.viewers..(n + 1) * SIZE.viewers]);
    }
    assert!(saw.iter().any(|one| one.returns > 0), "the api that was killed had viewers");
    world.deployment.stop().await;
}

/// As a client submits: with a key, and again where the log is said to be away. Whose connection broke in mid-call cannot be told otherwise.
async fn accepted(http: &Http, message: &str, instance: usize) -> Value {
    let key = unique("key");
    eventually("accepted", LIMIT, || async {
        let answer = http.submit(Submit::message(message).on(instance).key(&key).background()).await;
        if answer.status() == StatusCode::SERVICE_UNAVAILABLE { None } else { Some(body(answer, StatusCode::ACCEPTED).await) }
    })
    .await
}

async fn watch(http: Http, runs: Vec<String>) -> Vec<Saw> {
    let viewers = runs.iter().flat_map(|run_id| (0..SIZE.viewers).map(|n| viewer::watch(&http, run_id, n, LIMIT)).collect::<Vec<_>>());
    timeout(LIMIT, join_all(viewers)).await.expect("all end")
}

/// Tells all runs to end, also those that begin only now.
async fn let_go(data: &Path) {
    let below = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect::<Vec<_>>();
    loop {
        for sandbox in below(&data.join("sandboxes")).iter().flat_map(|session| below(session)) {
            // One that is just being made or cleared away has no workspace.
            let _ = fs::write(sandbox.join("workspace/go"), "");
        }
        sleep(Duration::from_millis(100)).await;
    }
}

fn judge(run_id: &str, stored: &Streamed, viewers: &[Saw]) {
    for one in viewers {
        one.is_whole().unwrap_or_else(|why| panic!("run {run_id}: {why}"));
        assert_eq!(one.frames, stored.0, "a viewer and the log of run {run_id}");
    }
    assert_eq!(stored.last_event(), "RunCompleted");
    let started = stored.0.iter().filter(|frame| frame["event"] == "RunStarted").count();
    assert_eq!(started, 1, "what failed cost run {run_id} an attempt");
    let text = stored.text();
    // None at all where the machine was so slow that it began when it was told to end.
    let ticks = text.lines().count() - 1;
    let lines: String = (1..=ticks).map(|n| format!("tick {n}\n")).chain(["the end\n".to_owned()]).collect();
    assert_eq!(text, lines, "run {run_id}");
}

impl World {
    async fn one_after_the_other(&mut self) {
        let moment = || sleep(SIZE.moment);
        if let Some((redis, link)) = &mut self.redis {
            moment().await;
            redis.ask(&["FLUSHALL"]).await;
            moment().await;
            redis.kill();
            moment().await;
            redis.restart().await;
            // Half open is what says nothing and does not end.
            for weather in [Weather::Slow(Duration::from_millis(300)), Weather::Silent, Weather::Cut] {
                link.set(weather);
                moment().await;
                link.set(Weather::Fair);
                moment().await;
            }
        }
        let port = self.kill_api().await;
        self.deployment.add_api_on(&port).await;
        self.deployment.workers.remove(0).kill().await;
        self.deployment.add_worker().await;
        // Back at once, and after a while.
        for away in [Duration::ZERO, SIZE.moment] {
            self.postgres.crash();
            sleep(away).await;
            self.postgres.restart().await;
            let http = self.deployment.http();
            join_all((0..8).map(|n| accepted(&http, "say on", n))).await;
            moment().await;
        }
    }

    async fn at_once(&mut self) {
        if let Some((redis, link)) = &mut self.redis {
            link.set(Weather::Silent);
            redis.kill();
        }
        self.postgres.crash();
        let port = self.kill_api().await;
        self.deployment.workers.remove(0).kill().await;
        sleep(2 * SIZE.moment).await;
        self.postgres.restart().await;
        self.deployment.add_api_on(&port).await;
        self.deployment.add_worker().await;
        if let Some((redis, link)) = &mut self.redis {
            redis.restart().await;
            link.set(Weather::Fair);
        }
        sleep(SIZE.moment).await;
    }

    /// Its viewers go to the other one, and come back when there is one at its port again.
    async fn kill_api(&mut self) -> String {
        let api = self.deployment.apis.remove(0);
        let port = api.url.as_deref().and_then(|url| url.rsplit(':').next()).expect("a port").to_owned();
        api.kill().await;
        port
    }
}

//! A worker that is killed around every write that it makes.

use std::time::Duration;

use e2e::http::{ENDED, Submit, text};
use e2e::proxy::{Proxy, Strike};
use e2e::{Deployment, Shape};
use tokio::task::JoinSet;

/// One death: the worker is killed at its `nth` write, another goes on. Whether there was such a write.
async fn dies_at(nth: u32, strike: Strike) -> bool {
    let mut deployment = Deployment::with(Shape::Apart { apis: 1, workers: 0 }, &[("SANDLOG_LEASE_SECONDS", "1")]).await;
    let http = deployment.http();
    // Submitted before there is a worker, so that its first claim is its first write.
    let run_id = text(&http.background(Submit::message("tick 8 0.06\nwrite seen.txt once\nread seen.txt")).await, "run_id");
    let viewer = tokio::spawn({
        let (http, run_id) = (http.clone(), run_id.clone());
        async move { http.resume(&run_id, None, 0).await }
    });

    let (server, through) = deployment.database_through_a_proxy();
    let proxy = Proxy::start(&server, nth, strike).await;
    deployment.add_worker_with(&[("DATABASE_URL", &through(proxy.port))]).await;
    let struck = tokio::select! {
        statement = proxy.struck() => Some(statement),
        _ = http.wait(&run_id, &ENDED) => None,
    };
    if struck.is_some() {
        deployment.workers.remove(0).kill().await;
        drop(proxy);
        deployment.add_worker().await;
    }

    let run = http.wait(&run_id, &ENDED).await;
    let what = format!("killed {strike:?} write {nth} {struck:?}: {run}");
    let got = viewer.await.expect("the viewer").whole(0);
    let expected: String = (1..=8).map(|n| format!("tick {n}\n")).chain(["once\n".into()]).collect();
    assert_eq!((run["status"].as_str(), run["attempt"].as_u64()), (Some("COMPLETED"), Some(1)), "{what}");
    assert_eq!((run["content"].as_str(), got.text().as_str()), (Some(expected.as_str()), expected.as_str()), "{what}");
    assert_eq!(got.0.iter().filter(|frame| frame["event"] == "RunStarted").count(), 1, "{what}");
    assert_eq!(http.resume(&run_id, None, 0).await, got, "{what}");
    deployment.cleared().await;
    deployment.stop().await;
    struck.is_some()
}

/// All deaths of one kind, four at a time, until a turn is over before its number comes.
async fn dies_everywhere(strike: Strike) {
    let (mut next, mut running, mut over) = (1, JoinSet::new(), false);
    loop {
        while !over && running.len() < 4 {
            running.spawn(dies_at(next, strike));
            next += 1;
        }
        match running.join_next().await {
            Some(struck) => over |= !struck.expect("a turn whose worker was killed"),
            None => break,
        }
    }
    // Claim, place, start, at least one output, finish.
    assert!(next > 5, "only {next} deaths");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_killed_before_any_of_its_writes_is_followed_by_one_that_goes_on() {
    tokio::time::timeout(Duration::from_secs(300), dies_everywhere(Strike::Before)).await.expect("in time");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_killed_after_any_of_its_writes_is_followed_by_one_that_goes_on() {
    tokio::time::timeout(Duration::from_secs(300), dies_everywhere(Strike::After)).await.expect("in time");
}

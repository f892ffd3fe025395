//! Cancelled means dead: over two apis and two workers, whatever the program does, whoever is dead, and whenever the wish comes.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use e2e::http::{ENDED, Submit, body, text};
use e2e::{Deployment, Http, Redis, Shape, eventually, traces, unique};
use reqwest::StatusCode;
use rustix::process::Signal;
use serde_json::Value;

const APART: Shape = Shape::Apart { apis: 2, workers: 2 };
/// What deployments of tests have, what follows from it, and what a cancelled program has until it is killed.
const LEASE: Duration = Duration::from_secs(3);
const GRACE: Duration = Duration::from_secs(2);
/// A machine with other tests on it. The sweep, which would find what is missed here, comes later than this and the rest together.
const SLACK: Duration = Duration::from_secs(15);
const LIMIT: Duration = Duration::from_secs(40);

/// A session whose first turn left one file, and a turn that spoils it and takes no signal: its run, and where its programs are.
async fn defiant(http: &Http) -> (String, String, PathBuf) {
    let (session, mark) = (unique("s"), unique("mark"));
    http.foreground(Submit::message("write kept.txt yes").field("session_id", &session)).await;
    let message = format!("write lost.txt no\nwrite kept.txt no\ndefy {mark}");
    let run = http.background(Submit::message(message).field("session_id", &session)).await;
    let space = eventually("programs that went their own ways", LIMIT, || async {
        let spaces = traces::namespaces(&mark);
        spaces.first().filter(|space| spaces.len() > 1 && spaces.iter().all(|one| one == *space)).cloned()
    });
    (session, text(&run, "run_id"), space.await)
}

async fn cancel(http: &Http, run_id: &str) -> Value {
    body(http.cancel(run_id, 1).await, StatusCode::OK).await
}

/// Waits until the log says that it is cancelled: at that moment nothing of it may be there. Its session is as it was before.
async fn is_dead(http: &Http, session: &str, run_id: &str, space: &Path) {
    assert_eq!(http.wait(run_id, &ENDED).await["status"], "CANCELLED");
    assert_eq!(traces::inside(space), [""; 0], "alive after run.cancelled");
    assert_eq!(http.resume(run_id, None, 0).await.whole(0).last_event(), "RunCancelled");
    let after = http.foreground(Submit::message("list\nread kept.txt").field("session_id", session)).await;
    assert_eq!(after["content"], "kept.txt\nyes\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_that_take_no_signal_are_gone_and_the_answer_does_not_wait_for_that() {
    let deployment = Deployment::start(APART).await;
    let http = deployment.http();
    let (session, run_id, space) = defiant(&http).await;
    // Nobody can end it now, so an answer that comes did not wait.
    deployment.workers.iter().for_each(|worker| worker.signal(Signal::STOP));
    let told = cancel(&http, &run_id).await;
    assert_eq!((&told["status"], &told["cancel_requested"]), (&"RUNNING".into(), &true.into()), "{told}");
    assert!(traces::inside(&space).len() > 3);
    deployment.workers.iter().for_each(|worker| worker.signal(Signal::CONT));
    is_dead(&http, &session, &run_id, &space).await;
    deployment.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_holders_run_is_cancelled_by_another_within_lease_and_heartbeat_without_redis() {
    let mut redis = Redis::start().await;
    let mut deployment = Deployment::with(Shape::Apart { apis: 2, workers: 1 }, &[("REDIS_URL", &redis.url())]).await;
    let http = deployment.http();
    let (session, run_id, space) = defiant(&http).await;
    deployment.add_worker().await;
    redis.kill();
    deployment.workers.remove(0).kill().await;
    let since = Instant::now();
    cancel(&http, &run_id).await;
    assert!(traces::inside(&space).len() > 3, "its sandbox outlives a worker");
    is_dead(&http, &session, &run_id, &space).await;
    let took = since.elapsed();
    assert!(took < LEASE + LEASE / 3 + GRACE + SLACK, "{took:?}");
    deployment.add_worker().await;
    deployment.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_cancelled_in_the_middle_of_its_checkpoint() {
    let deployment = Deployment::start(APART).await;
    let http = deployment.http();
    let is_packed = || fs::read_dir(deployment.data().join("checkpoints")).into_iter().flatten().flatten().any(|session| has_part(&session.path()));
    let signal = |signal| deployment.workers.iter().for_each(|worker| worker.signal(signal));
    for _ in 0..10 {
        let session = unique("s");
        http.foreground(Submit::message("write kept.txt yes").field("session_id", &session)).await;
        let run = http.background(Submit::message("write kept.txt no\nfill 100000000").field("session_id", &session)).await;
        let run_id = text(&run, "run_id");
        eventually("a checkpoint is begun", LIMIT, || async { is_packed().then_some(()) }).await;
        signal(Signal::STOP);
        if !is_packed() {
            // It was quicker, which is no fault.
            signal(Signal::CONT);
            assert_eq!(http.wait(&run_id, &ENDED).await["status"], "COMPLETED");
            continue;
        }
        let told = cancel(&http, &run_id).await;
        signal(Signal::CONT);
        assert_eq!(told["status"], "RUNNING");
        assert_eq!(http.wait(&run_id, &ENDED).await["status"], "CANCELLED");
        let after = http.foreground(Submit::message("list\nread kept.txt").field("session_id", session)).await;
        assert_eq!(after["content"], "kept.txt\nyes\n");
        return deployment.stop().await;
    }
    panic!("no checkpoint took long enough");
}

fn has_part(session: &Path) -> bool {
    let files = fs::read_dir(session).into_iter().flatten().flatten();
    files.map(|file| file.file_name()).any(|name| name.to_string_lossy().contains(".part-"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wish_that_comes_as_the_run_ends_is_answered_with_how_it_ended_or_is_fulfilled() {
    let deployment = Deployment::start(APART).await;
    let http = deployment.http();
    for n in 0..24 {
        // After one more frame each time, from the start to the end.
        let head = http.stream(Submit::message("say a\nsay b\ntick 1 0"), Some(1 + n % 6)).await;
        let run_id = head.run_id();
        let told = cancel(&http, &run_id).await;
        let ended = http.wait(&run_id, &ENDED).await;
        if told["status"] == "RUNNING" {
            assert_eq!((&ended["status"], &told["cancel_requested"]), (&"CANCELLED".into(), &true.into()), "{told}");
        } else {
            assert_eq!((&told["status"], &told["cancel_requested"]), (&ended["status"], &false.into()), "{told}");
        }
        let frames = http.resume(&run_id, None, n).await.whole(0);
        let expected = if ended["status"] == "CANCELLED" { "RunCancelled" } else { "RunCompleted" };
        assert_eq!(frames.last_event(), expected);
        assert_eq!(frames.0[..head.0.len()], head.0, "what a viewer saw stays");
    }
    deployment.stop().await;
}

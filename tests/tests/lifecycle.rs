//! Starting, stopping and dying of whole deployments.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use e2e::deployment::{Folder, agents};
use e2e::http::{ENDED, Submit, text};
use e2e::instance::{Instance, command, finish};
use e2e::{Deployment, Shape, eventually, traces, unique};
use rustix::process::Signal;

fn variables(folder: &Folder) -> Vec<(String, String)> {
    vec![
        ("SANDLOG_DATA_DIR".to_owned(), folder.path().join("data").display().to_string()),
        ("SANDLOG_AGENTS".into(), agents().display().to_string()),
        ("SANDLOG_PORT".into(), "0".into()),
        ("SANDLOG_LEASE_SECONDS".into(), "3".into()),
    ]
}

#[tokio::test]
async fn up_ends_all_that_it_started_also_in_the_middle_of_a_run() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut deployment = Deployment::start(Shape::Embedded).await;
        let http = deployment.http();
        let head = http.stream(Submit::message("tick 6000 0.1"), Some(2)).await;
        assert_eq!(head.0.len(), 2);
        deployment.apis[0].signal(signal);
        let status = deployment.apis[0].ended().await;
        assert!(status.success(), "{status}: {}", deployment.apis[0].log());
        traces::gone(&deployment.data(), Duration::from_secs(30)).await;
        deployment.apis.clear();
        deployment.stop().await;
    }
}

#[tokio::test]
async fn up_ends_its_sandboxes_also_when_its_postgres_has_died() {
    let mut deployment = Deployment::start(Shape::Embedded).await;
    let http = deployment.http();
    let head = http.stream(Submit::message("tick 6000 0.01"), Some(2)).await;
    assert_eq!(head.0.len(), 2);
    let silent = http.background(Submit::message("tick 1 6000")).await;
    http.wait(&text(&silent, "run_id"), &["RUNNING"]).await;
    let pid = fs::read_to_string(deployment.data().join("postgres/data/postmaster.pid")).expect("a pid file");
    let pid = pid.lines().next().and_then(|pid| pid.parse().ok()).and_then(rustix::process::Pid::from_raw).expect("a pid");
    rustix::process::kill_process(pid, Signal::KILL).expect("a server to kill");
    assert!(!deployment.apis[0].ended().await.success());
    traces::gone(&deployment.data(), Duration::from_secs(30)).await;
    deployment.apis.clear();
    deployment.stop().await;
}

#[tokio::test]
async fn a_run_whose_runner_stands_still_is_cancelled_all_the_same() {
    let deployment = Deployment::start(Shape::Embedded).await;
    let http = deployment.http();
    let run_id = http.stream(Submit::message("tick 6000 0.1"), Some(2)).await.run_id();
    let runner = eventually("a runner", Duration::from_secs(30), || async {
        let traces = traces::of(&deployment.data());
        let pids = traces.iter().filter(|trace| trace.contains("sandlog-runner run")).filter_map(|trace| trace.split(':').next());
        // Its launcher and its guard have the same command line; it alone leads a session.
        let leads = |pid: &rustix::process::Pid| rustix::process::getsid(Some(*pid)) == Ok(*pid);
        pids.filter_map(|pid| rustix::process::Pid::from_raw(pid.parse().ok()?)).find(leads)
    });
    rustix::process::kill_process(runner.await, Signal::STOP).expect("a runner to stop");
    http.cancel(&run_id, 0).await;
    assert_eq!(http.wait(&run_id, &ENDED).await["status"], "CANCELLED");
    deployment.stop().await;
}

#[tokio::test]
async fn a_run_outlives_up_in_its_log_and_ends_after_the_next_start() {
    let folder = Folder::new();
    let up = Instance::start(&[], &variables(&folder), folder.path()).await;
    let http = e2e::Http::new(up.url.clone().into_iter().collect());
    let session = unique("s");
    let first = http.background(Submit::message("tick 6000 0.1").field("session_id", &session)).await;
    let second = http.background(Submit::message("say later").field("session_id", &session)).await;
    http.wait(&text(&first, "run_id"), &["RUNNING"]).await;
    assert!(up.stop().await.success());

    let up = Instance::start(&[], &variables(&folder), folder.path()).await;
    let http = e2e::Http::new(up.url.clone().into_iter().collect());
    http.cancel(&text(&first, "run_id"), 0).await;
    assert!(ENDED.contains(&text(&http.wait(&text(&first, "run_id"), &ENDED).await, "status").as_str()));
    assert_eq!(http.wait(&text(&second, "run_id"), &ENDED).await["content"], "later\n");
    http.resume(&text(&first, "run_id"), None, 0).await.whole(0);
    assert!(up.stop().await.success());
    traces::gone(folder.path(), Duration::from_secs(30)).await;
}

#[tokio::test]
async fn the_start_after_a_kill_has_the_log() {
    let folder = Folder::new();
    let up = Instance::start(&[], &variables(&folder), folder.path()).await;
    let http = e2e::Http::new(up.url.clone().into_iter().collect());
    let run = http.foreground(Submit::message("say kept")).await;
    up.kill().await;
    // At once: the server of the killed one may still be stopping.
    let up = Instance::start(&[], &variables(&folder), folder.path()).await;
    let http = e2e::Http::new(up.url.clone().into_iter().collect());
    assert_eq!(http.wait(&text(&run, "run_id"), &ENDED).await["content"], "kept\n");
    assert!(up.stop().await.success());
    traces::gone(folder.path(), Duration::from_secs(30)).await;
}

#[tokio::test]
async fn a_killed_up_leaves_no_postgres() {
    let folder = Folder::new();
    let up = Instance::start(&[], &variables(&folder), folder.path()).await;
    up.kill().await;
    traces::gone(folder.path(), Duration::from_secs(30)).await;
}

#[tokio::test]
async fn an_up_ends_the_sandboxes_of_a_killed_one_too() {
    let folder = Folder::new();
    let up = Instance::start(&[], &variables(&folder), folder.path()).await;
    let http = e2e::Http::new(up.url.clone().into_iter().collect());
    http.stream(Submit::message("tick 6000 0.1"), Some(2)).await;
    up.kill().await;
    assert!(!traces::of(folder.path()).is_empty());
    // Stopped before the dead one's lease is over: the sandbox is nobody's then.
    let mut variables = variables(&folder);
    variables.push(("SANDLOG_LEASE_SECONDS".into(), "60".into()));
    let up = Instance::start(&[], &variables, folder.path()).await;
    assert!(up.stop().await.success());
    traces::gone(folder.path(), Duration::from_secs(30)).await;
}

#[tokio::test]
async fn a_second_up_of_one_folder_is_refused_and_the_first_goes_on() {
    let deployment = Deployment::start(Shape::Embedded).await;
    let second = finish(command(&["up"], deployment.variables())).await;
    assert!(!second.status.success());
    let url = deployment.apis[0].url.clone().expect("a url");
    assert!(second.stderr.contains("another sandlog") && second.stderr.contains(&url), "{}", second.stderr);
    deployment.http().foreground(Submit::message("say still here")).await;
    deployment.stop().await;
}

#[tokio::test]
async fn a_folder_below_a_private_one_serves_too() {
    let folder = Folder::new();
    let private = folder.path().join("private");
    fs::create_dir(&private).expect("a folder");
    fs::set_permissions(&private, fs::Permissions::from_mode(0o700)).expect("a mode");
    let mut variables = variables(&folder);
    variables[0].1 = private.join("data").display().to_string();
    let up = Instance::start(&[], &variables, folder.path()).await;
    let http = e2e::Http::new(up.url.clone().into_iter().collect());
    assert_eq!(http.foreground(Submit::message("write a.txt b\nread a.txt")).await["content"], "b\n");
    assert!(up.stop().await.success());
    traces::gone(folder.path(), Duration::from_secs(30)).await;
}

#[tokio::test]
async fn a_worker_alone_leaves_its_sandboxes_to_the_next_which_repeats_nothing() {
    for kill in [false, true] {
        let mut deployment = Deployment::start(Shape::Apart { apis: 1, workers: 1 }).await;
        let http = deployment.http();
        let head = http.stream(Submit::message("tick 40 0.1"), Some(4)).await;
        let worker = deployment.workers.remove(0);
        if kill {
            worker.kill().await
        } else {
            assert!(worker.stop().await.success())
        }
        deployment.add_worker().await;
        let run = http.wait(&head.run_id(), &ENDED).await;
        let expected: String = (1..=40).map(|tick| format!("tick {tick}\n")).collect();
        assert_eq!((run["content"].as_str(), &run["attempt"]), (Some(expected.as_str()), &serde_json::json!(1)), "killed: {kill}");
        let got = http.resume(&head.run_id(), None, 0).await.whole(0);
        assert_eq!(got.text(), expected);
        assert_eq!(got.0[..4], head.0);
        deployment.stop().await;
    }
}

#[tokio::test]
async fn an_api_alone_accepts_and_a_later_worker_runs() {
    let mut deployment = Deployment::start(Shape::Apart { apis: 1, workers: 0 }).await;
    let http = deployment.http();
    let run = http.background(Submit::message("say at last")).await;
    deployment.add_worker().await;
    assert_eq!(http.wait(&text(&run, "run_id"), &ENDED).await["content"], "at last\n");
    deployment.stop().await;
}

#[tokio::test]
async fn nothing_of_an_ended_run_stays_in_the_data_folder() {
    let deployment = Deployment::start(Shape::Embedded).await;
    let http = deployment.http();
    http.foreground(Submit::message("write a.txt b")).await;
    let data = deployment.data();
    eventually("the sandbox's folder is gone", Duration::from_secs(20), || async {
        let session = fs::read_dir(data.join("sandboxes")).ok()?.next()?.ok()?.path();
        fs::read_dir(session).ok()?.all(|entry| entry.is_ok_and(|entry| !entry.path().is_dir())).then_some(())
    })
    .await;
    deployment.stop().await;
}

#[tokio::test]
async fn a_worker_alone_tells_its_counts_where_it_was_told_to() {
    let deployment = Deployment::with(Shape::Apart { apis: 1, workers: 1 }, &[("SANDLOG_METRICS_PORT", "0")]).await;
    let http = deployment.http();
    http.foreground(Submit::message("say counted")).await;
    let log = deployment.workers[0].log();
    let rest = log.split("metrics are at ").nth(1).unwrap_or_else(|| panic!("{log}"));
    let worker = e2e::Http::new(vec![rest.split("/metrics").next().expect("a URL").to_owned()]);
    eventually("its run is counted", Duration::from_secs(20), || async {
        let text = worker.get("/metrics").await.text().await.expect("text");
        text.lines().any(|line| line == "sandlog_runs_ended_total{status=\"COMPLETED\"} 1").then_some(())
    })
    .await;
    assert_eq!(worker.get("/health").await.status(), 404);
    assert!(!deployment.apis[0].log().contains("metrics are at"), "an api has them on its own port");
    deployment.stop().await;
}

//! What is accepted, and that it is accepted once, over several instances on a real log.

use std::collections::HashSet;
use std::fs;
use std::time::Duration;

use e2e::deployment::Folder;
use e2e::http::{ENDED, Submit, body, list, refused, text};
use e2e::{Deployment, Shape, eventually, unique};
use reqwest::{Method, StatusCode};
use serde_json::Value;
use tokio::task::JoinSet;

const AT_ONCE: usize = 200;

/// The run's id, asked for again of the other instance as a client does that hears nothing.
async fn submitted(http: &e2e::Http, key: &str, instance: usize) -> String {
    eventually("an answer of an instance that lives", Duration::from_secs(60), || async {
        for instance in [instance, 1] {
            let request = http.request(Method::POST, instance, "/agents/echo/runs").header("idempotency-key", key);
            let fields = [("message", "say once"), ("stream", "false"), ("background", "true")];
            // The one that was killed answers nobody, or half.
            let Ok(answer) = request.form(&fields).send().await else { continue };
            let status = answer.status();
            let Ok(answer) = answer.json::<Value>().await else { continue };
            assert_eq!(status, StatusCode::ACCEPTED, "{answer}");
            return Some(text(&answer, "run_id"));
        }
        None
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_of_one_key_start_one_run_also_when_the_first_instance_dies_among_them() {
    let mut deployment = Deployment::start(Shape::Apart { apis: 2, workers: 0 }).await;
    for round in 0..3 {
        let http = deployment.http();
        let key = unique("k");
        let mut asking = JoinSet::new();
        for n in 0..AT_ONCE {
            let (http, key) = (http.clone(), key.clone());
            asking.spawn(async move { submitted(&http, &key, n % 2).await });
        }
        if round == 1 {
            // In the middle: some have their answer, and most not.
            let early = asking.join_next().await.expect("an answer").expect("a client");
            deployment.apis.remove(0).kill().await;
            assert!(asking.join_all().await.into_iter().all(|answer| answer == early), "all were told of one run");
            deployment.add_api().await;
        } else {
            let answers: HashSet<String> = asking.join_all().await.into_iter().collect();
            assert_eq!(answers.len(), 1, "{answers:?}");
        }
        let database = deployment.database.as_ref().expect("a database");
        let expected = (round + 1).to_string();
        for counted in ["runs", "sessions", "idempotency_keys", "events where type = 'run.submitted'"] {
            assert_eq!(database.rows(&format!("select count(*) from sandlog.{counted}")), [[expected.clone()]], "{counted}");
        }
    }
    deployment.add_worker().await;
    deployment.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_refuses_answers_retries_and_takes_runs_again_once_workers_come() {
    let mut deployment = Deployment::with(Shape::Apart { apis: 2, workers: 0 }, &[("SANDLOG_QUEUE_LIMIT", "3")]).await;
    let http = deployment.http();
    let key = unique("k");
    let first = http.background(Submit::message("say x").key(&key)).await;
    http.background(Submit::message("say x")).await;
    http.background(Submit::message("fail on purpose").on(1)).await;
    for instance in 0..2 {
        let answer = http.submit(Submit::message("say x").on(instance).background()).await;
        assert!(answer.headers().contains_key("retry-after"));
        refused(answer, 429, "Job queue is full").await;
        assert_eq!(http.background(Submit::message("say x").key(&key).on(instance)).await["run_id"], first["run_id"]);
    }
    let stats = async || body(http.get("/queue/stats").await, StatusCode::OK).await;
    assert_eq!(stats().await["counts"]["PENDING"], 3);
    deployment.add_worker().await;
    let ended = async |counts: [u64; 2]| {
        eventually("all end", Duration::from_secs(60), || async {
            let stats = stats().await;
            (stats["counts"]["COMPLETED"] == counts[0] && stats["counts"]["ERROR"] == counts[1] && stats["counts"]["PENDING"] == 0).then_some(())
        })
        .await;
    };
    ended([2, 1]).await;
    http.foreground(Submit::message("say room")).await;

    // The one that failed is done again, by hand.
    let failed = list(&body(http.get("/queue/jobs?status=ERROR").await, StatusCode::OK).await).remove(0);
    let path = format!("/queue/jobs/{}/requeue", text(&failed, "run_id"));
    let again = body(http.request(Method::POST, 1, &path).send().await.expect("an answer"), StatusCode::ACCEPTED).await;
    let run = http.wait(&text(&again, "run_id"), &ENDED).await;
    assert_eq!((run["status"].as_str(), run["session_id"].as_str()), (Some("ERROR"), failed["session_id"].as_str()), "{run}");
    ended([3, 2]).await;
    deployment.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_definition_that_was_accepted_runs_whatever_the_worker_has() {
    let folder = Folder::new();
    let file = |name: &str, says: &str| {
        let path = folder.path().join(name);
        let agent = format!("[agents.echo]\nharness = \"command\"\nnetwork = \"none\"\ncommand = [\"/bin/sh\", \"-c\", \"echo {says}; pwd\"]\n");
        fs::write(&path, agent).expect("a file");
        path.display().to_string()
    };
    let (of_api, of_worker) = (file("api.toml", "as accepted"), file("worker.toml", "as the worker has it"));
    let mut deployment = Deployment::with(Shape::Apart { apis: 1, workers: 0 }, &[("SANDLOG_AGENTS", &of_api)]).await;
    deployment.add_worker_with(&[("SANDLOG_AGENTS", &of_worker)]).await;
    let http = deployment.http();
    let run = http.foreground(Submit::message("x").field("session_id", "s")).await;
    assert_eq!(run["content"], "as accepted\n/workspace\n");

    // Another api with another definition of the same agent: each run has its own, in one session and when it is done again.
    fs::write(folder.path().join("api.toml"), fs::read_to_string(&of_worker).expect("a file")).expect("a file");
    deployment.add_api().await;
    let http = deployment.http();
    let other = http.foreground(Submit::message("x").field("session_id", "s").on(1)).await;
    assert_eq!(other["content"], "as the worker has it\n/workspace\n");
    let path = format!("/queue/jobs/{}/requeue", text(&run, "run_id"));
    let again = body(http.request(Method::POST, 1, &path).send().await.expect("an answer"), StatusCode::ACCEPTED).await;
    let again = http.wait(&text(&again, "run_id"), &ENDED).await;
    assert_eq!(again["content"], "as accepted\n/workspace\n");
    deployment.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attachments_have_safe_names_in_the_sandbox_and_are_not_in_the_events() {
    let deployment = Deployment::start(Shape::Apart { apis: 1, workers: 1 }).await;
    let http = deployment.http();
    let long: &'static str = Box::leak(format!("{}.txt", "x".repeat(250)).into_boxed_str());
    let names = ["../../../etc/passwd", "/etc/shadow", "a.txt", "a.txt", "A.TXT", long, "-rf", ".hidden", "two words; rm.txt"];
    let mut submit = Submit::message("files");
    for (n, name) in names.into_iter().enumerate() {
        submit = submit.file(name, "text/plain", format!("a secret content, number {n}").as_bytes());
    }
    let run = http.foreground(submit).await;
    let mut found: Vec<String> = text(&run, "content").lines().filter_map(|line| line.rsplit_once('/').map(|(_, name)| name.to_owned())).collect();
    found.sort();
    let mut expected = vec!["passwd", "shadow", "a.txt", "a-2.txt", "A-3.TXT", "rf", "hidden", "two words_ rm.txt"]
        .into_iter()
        .map(str::to_owned)
        .collect::<Vec<_>>();
    expected.push(format!("{}.txt", "x".repeat(200)));
    expected.sort();
    assert_eq!(found, expected, "{run}");
    let folders: HashSet<&str> = run["content"]
        .as_str()
        .expect("text")
        .lines()
        .filter_map(|line| line.split_whitespace().nth(1)?.rsplit_once('/'))
        .map(|(folder, _)| folder)
        .collect();
    assert_eq!(folders.len(), 1, "all in one folder: {run}");
    // As they were sent, with their digests, and no bytes of them.
    let files = run["input"]["files"].as_array().expect("files");
    assert!(files.iter().all(|file| file["sha256"].as_str().is_some_and(|sum| sum.len() == 64)) && files.len() == names.len());
    let database = deployment.database.as_ref().expect("a database");
    assert_eq!(database.rows("select count(*) from sandlog.events where data::text like '%a secret content%'"), [["0"]]);
    assert_eq!(database.rows("select count(distinct sha256) from sandlog.attachments where sha256 = encode(sha256(body), 'hex')"), [["9"]]);
    deployment.stop().await;
}

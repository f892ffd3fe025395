//! Runs, sessions, agents and events as they are read, cancelled and erased.

use std::sync::atomic::Ordering;
use std::time::Duration;

use adapters::{Signal, Signals};
use api::Options;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::kit::{Broken, LIMIT, Stage, form};

fn post(path: &str) -> Request<Body> {
    Request::post(path).body(Body::empty()).unwrap()
}

fn delete(path: &str) -> Request<Body> {
    Request::delete(path).body(Body::empty()).unwrap()
}

#[tokio::test]
async fn a_run_is_read_as_the_contract_says() {
    let stage = Stage::new();
    let fields = [("message", "hi"), ("session_id", "s"), ("user_id", "ann"), ("metadata", r#"{"k": [1]}"#)];
    let run = stage.accepted(&fields).await;
    let path = format!("/agents/echo/runs/{run}");
    let pending = stage.get(&path).await.json();
    assert_eq!((&pending["status"], &pending["content"], &pending["started_at"]), (&json!("PENDING"), &Value::Null, &Value::Null));
    let mut worker = stage.worker().await;
    worker.start().await;
    worker.complete("there\n").await;
    let mut got = stage.get(&path).await.json();
    for time in ["created_at", "started_at", "ended_at"] {
        let seconds = got.as_object_mut().unwrap().remove(time).unwrap();
        assert!((1_600_000_000..10_000_000_000).contains(&seconds.as_i64().unwrap()), "{time}: {seconds}");
    }
    let expected = json!({
        "run_id": run, "agent_id": "echo", "session_id": "s", "user_id": "ann", "status": "COMPLETED", "content": "there\n", "content_type": "str",
        "attempt": 1, "messages": [{ "role": "user", "content": "hi" }, { "role": "assistant", "content": "there\n" }], "tools": [],
        "metrics": { "duration": 0.5 }, "input": { "input_content": "hi", "files": [] }, "metadata": { "k": [1] },
    });
    assert_eq!(got, expected);
    assert_eq!(stage.get(&format!("{path}?session_id=s")).await.status, StatusCode::OK);
    for path in [format!("{path}?session_id=t"), format!("/agents/other/runs/{run}"), "/agents/echo/runs/not-a-uuid".into()] {
        let answer = stage.get(&path).await;
        assert_eq!((answer.status, answer.detail().as_str()), (StatusCode::NOT_FOUND, "Run not found"), "{path}");
    }
}

#[tokio::test]
async fn a_waiting_run_names_the_one_before_it() {
    let stage = Stage::new();
    let first = stage.accepted(&[("message", "1"), ("session_id", "s")]).await;
    let second = stage.accepted(&[("message", "2"), ("session_id", "s")]).await;
    let path = format!("/agents/echo/runs/{second}");
    assert_eq!(stage.get(&path).await.json()["waiting_on"], json!(first));
    stage.worker().await.complete_at_once().await;
    assert!(stage.get(&path).await.json().get("waiting_on").is_none());
}

#[tokio::test]
async fn runs_and_sessions_are_listed_newest_first_in_pages() {
    let stage = Stage::new();
    let mut runs = Vec::new();
    for number in 0..5 {
        let user = if number % 2 == 0 { "ann" } else { "bob" };
        runs.push(stage.accepted(&[("message", "x"), ("session_id", &format!("s{number}")), ("user_id", user)]).await);
    }
    for (path, key, all) in [
        ("/agents/echo/runs", "run_id", runs.iter().rev().map(ToString::to_string).collect::<Vec<_>>()),
        ("/sessions", "session_id", (0..5).rev().map(|number| format!("s{number}")).collect()),
    ] {
        let (mut got, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = stage.get(&format!("{path}?limit=2{cursor}")).await.json();
            let data = page["data"].as_array().unwrap();
            assert!(data.len() <= 2);
            got.extend(data.iter().map(|item| item[key].as_str().unwrap().to_owned()));
            let Some(next) = page["meta"]["next_cursor"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        assert_eq!(got, all, "{path}");
        let of_ann = stage.get(&format!("{path}?user_id=ann")).await.json();
        assert_eq!(of_ann["data"].as_array().unwrap().len(), 3, "{path}");
    }
    assert_eq!(stage.get("/agents/echo/runs?session_id=s1").await.json()["data"].as_array().unwrap().len(), 1);
    assert_eq!(stage.get("/agents/echo/runs?status=completed").await.json()["data"], json!([]));
    assert_eq!(stage.get("/agents/other/runs").await.json()["data"], json!([]));
    assert_eq!(stage.get("/agents/nobody/runs").await.detail(), "Agent not found");
    assert_eq!(stage.get("/sessions?component_id=other").await.json()["data"], json!([]));
    assert_eq!(stage.get("/sessions?limit=101").await.faulty(), ["limit"]);
}

#[tokio::test]
async fn a_session_is_read_with_its_runs_and_erased_once_they_have_ended() {
    let stage = Stage::new();
    for _ in 0..2 {
        stage.accepted(&[("message", "hi"), ("session_id", "s/1")]).await;
    }
    let session = stage.get("/sessions/s%2F1").await.json();
    assert_eq!((&session["session_id"], &session["agent_id"], &session["run_count"]), (&json!("s/1"), &json!("echo"), &json!(2)));
    let page = stage.get("/sessions/s%2F1/runs?limit=1").await;
    assert_eq!((page.json().as_array().unwrap().len(), &page.json()[0]["run_input"]), (1, &json!("hi")));
    let next = page.headers["x-next-cursor"].to_str().unwrap().to_owned();
    let rest = stage.get(&format!("/sessions/s%2F1/runs?cursor={next}")).await;
    assert_eq!((rest.json().as_array().unwrap().len(), rest.headers.get("x-next-cursor")), (1, None));

    let runs = rest.json();
    let one = format!("/sessions/s%2F1/runs/{}", runs[0]["run_id"].as_str().unwrap());
    assert_eq!(stage.get(&one).await.json(), runs[0]);
    assert_eq!(stage.get("/sessions/s%2F1/runs/01890a5d-ac96-774b-bcce-b302099a8057").await.detail(), "Run not found");

    assert_eq!(stage.ask(delete("/sessions/s%2F1")).await.status, StatusCode::CONFLICT);
    for _ in 0..2 {
        stage.worker().await.complete_at_once().await;
    }
    assert_eq!(stage.ask(delete("/sessions/s%2F1")).await.status, StatusCode::NO_CONTENT);
    let gone = format!("/agents/echo/runs/{}", runs[0]["run_id"].as_str().unwrap());
    assert_eq!(stage.get(&gone).await.detail(), "Run not found");
    for path in ["/sessions/s%2F1", "/sessions/s%2F1/runs"] {
        assert_eq!(stage.get(path).await.detail(), "Session not found");
    }
    assert_eq!(stage.ask(delete("/sessions/s%2F1")).await.detail(), "Session not found");
}

#[tokio::test]
async fn cancelling_tells_the_others_and_is_the_same_the_second_time() {
    let stage = Stage::new();
    let run = stage.accepted(&[("message", "x")]).await;
    let mut signals = stage.signals.subscribe();
    let path = format!("/agents/echo/runs/{run}/cancel");
    let expected = json!({ "run_id": run, "status": "CANCELLED", "cancel_requested": true });
    assert_eq!(stage.ask(post(&path)).await.json(), expected);
    assert_eq!((signals.try_recv(), signals.try_recv()), (Ok(Signal::Cancel(run)), Ok(Signal::look(run))));
    assert_eq!(stage.ask(post(&path)).await.json(), expected);
    let read = stage.get(&format!("/agents/echo/runs/{run}")).await.json();
    assert_eq!((&read["cancel_requested"], &read["messages"][0]["content"]), (&json!(true), &json!("x")));
    for path in ["echo/runs/01890a5d-ac96-774b-bcce-b302099a8057", "echo/runs/x", &format!("other/runs/{run}")] {
        assert_eq!(stage.ask(post(&format!("/agents/{path}/cancel"))).await.detail(), "Run not found", "{path}");
    }
}

#[tokio::test]
async fn a_running_run_is_asked_to_stop_and_a_finished_one_left_alone() {
    let stage = Stage::new();
    let run = stage.accepted(&[("message", "x")]).await;
    let mut worker = stage.worker().await;
    worker.start().await;
    let path = format!("/agents/echo/runs/{run}/cancel");
    assert_eq!(stage.ask(post(&path)).await.json(), json!({ "run_id": run, "status": "RUNNING", "cancel_requested": true }));
    worker.sync().await;
    worker.cancelled().await;
    let run = stage.accepted(&[("message", "x")]).await;
    stage.worker().await.complete_at_once().await;
    let answer = stage.ask(form(&format!("/agents/echo/runs/{run}/cancel"), &[])).await;
    assert_eq!(answer.json(), json!({ "run_id": run, "status": "COMPLETED", "cancel_requested": false }));
}

#[tokio::test]
async fn events_are_the_frames_of_the_stream_in_pages() {
    let stage = Stage::new();
    let run = stage.accepted(&[("message", "x")]).await;
    let mut worker = stage.worker().await;
    worker.start().await;
    for part in 0..7 {
        worker.say(&[&format!("{part}a"), &format!("{part}b"), &format!("{part}c")]).await;
    }
    worker.complete("done").await;
    let streamed: Vec<_> = stage.resume(run, None).await.frames().await.into_iter().map(|seen| seen.data).collect();
    let (mut listed, mut after) = (Vec::new(), String::new());
    loop {
        let page = stage.get(&format!("/agents/echo/runs/{run}/events?limit=4{after}")).await.json();
        let data = page["data"].as_array().unwrap().clone();
        let Some(last) = data.last() else { break };
        assert!(data.len() == 4 || last["event"] == "RunCompleted");
        assert_eq!(page["meta"]["last_event_index"], last["event_index"]);
        after = format!("&after={}", last["event_index"]);
        listed.extend(data);
    }
    assert_eq!(listed, streamed);
    assert_eq!(stage.get(&format!("/agents/echo/runs/{run}/events?after=-1")).await.json()["data"], json!(streamed));
    for query in ["limit=0", "limit=x", "limit=1001", "after=x", "after=-2"] {
        assert_eq!(stage.get(&format!("/agents/echo/runs/{run}/events?{query}")).await.status, StatusCode::UNPROCESSABLE_ENTITY, "{query}");
    }
    assert_eq!(stage.get(&format!("/agents/other/runs/{run}/events")).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn agents_are_listed_and_read() {
    let stage = Stage::new();
    let list = stage.get("/agents").await.json();
    let expected = json!({ "id": "echo", "name": "Echo", "description": "", "harness": "command", "model": null, "sandboxed": true });
    assert_eq!((list.as_array().unwrap().len(), &list[0]), (2, &expected));
    assert_eq!(stage.get("/agents/other").await.json()["model"]["id"], "m-1");
    assert_eq!(stage.get("/agents/nobody").await.detail(), "Agent not found");
}

#[tokio::test]
async fn health_says_that_the_log_answers() {
    let answer = Stage::new().get("/health").await;
    assert_eq!((answer.status, &answer.json()["status"], &answer.json()["postgres"]["status"]), (StatusCode::OK, &json!("ok"), &json!("ok")));
}

#[tokio::test]
async fn a_crowd_that_asks_for_the_health_costs_the_log_little() {
    let stage = Stage::new();
    let answers = join_all((0..500).map(|_| stage.get("/health"))).await;
    assert!(answers.iter().all(|answer| answer.status == StatusCode::OK));
    let asked = stage.reader.healths.load(Ordering::SeqCst);
    assert!((1..10).contains(&asked), "asked {asked} times");
    // Who comes later gets no old answer.
    stage.reader.down.store(true, Ordering::SeqCst);
    assert_eq!(stage.get("/health").await.status, StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn health_and_metrics_do_not_wait_for_a_log_that_says_nothing() {
    let stage = Stage::with(Options { probe_limit: Duration::from_millis(50), ..Options::default() });
    // It answers, and does not say whether it would take a run.
    *stage.gate.broken.lock().unwrap() = Some(Broken::Silent);
    let health = tokio::time::timeout(LIMIT, stage.get("/health")).await.expect("an answer");
    assert_eq!((health.status, health.json().get("submissions")), (StatusCode::OK, None));
    stage.reader.silent.store(true, Ordering::SeqCst);
    let health = tokio::time::timeout(LIMIT, stage.get("/health")).await.expect("an answer");
    assert_eq!((health.status, &health.json()["postgres"]["status"]), (StatusCode::SERVICE_UNAVAILABLE, &json!("unreachable")));
    let metrics = tokio::time::timeout(LIMIT, stage.get("/metrics")).await.expect("an answer");
    assert_eq!(metrics.status, StatusCode::OK);
}

//! Streams as clients get them: their frames, headers, announcements and ends; and submissions that wait.

use std::sync::atomic::Ordering;
use std::time::Duration;

use api::Options;
use axum::body::Body;
use axum::http::{HeaderValue, Request, StatusCode};
use serde_json::json;

use crate::kit::{Stage, form};

fn quick() -> Options {
    Options { tick: Duration::from_millis(2), ..Options::default() }
}

fn resume(run: uuid::Uuid, last_event_id: &str) -> Request<Body> {
    Request::get(format!("/agents/echo/runs/{run}/resume")).header("last-event-id", last_event_id).body(Body::empty()).unwrap()
}

#[tokio::test]
async fn a_submission_streams_its_run_without_announcements() {
    let stage = Stage::with(quick());
    let mut open = stage.send(form("/agents/echo/runs", &[("message", "x"), ("session_id", "s \"1\"")])).await;
    assert_eq!(open.status, StatusCode::OK);
    for (name, value) in [("content-type", "text/event-stream"), ("cache-control", "no-store"), ("x-accel-buffering", "no")] {
        assert_eq!(open.headers[name], value);
    }
    let mut worker = stage.worker().await;
    assert!(open.headers["location"].to_str().unwrap().ends_with(&worker.run_id.to_string()));
    let run = worker.run_id;
    worker.start().await;
    worker.say(&["one\ntwo\n", "three"]).await;
    worker.complete("all").await;
    let mut seen = Vec::new();
    while let Some(frame) = open.next().await {
        seen.push(frame);
    }
    let names: Vec<_> = seen.iter().map(|seen| seen.event.as_str()).collect();
    assert_eq!(names, ["RunStarted", "RunContent", "RunContent", "RunCompleted"]);
    let created_at = seen[1].data["created_at"].as_i64().unwrap();
    let expected = json!({
        "event": "RunContent", "run_id": run, "session_id": "s \"1\"", "agent_id": "echo", "created_at": created_at, "event_index": 1,
        "content": "one\ntwo\n",
    });
    assert_eq!(seen[1].data, expected);
    assert!((1_600_000_000..10_000_000_000).contains(&created_at));
    assert!(seen.iter().enumerate().all(|(at, seen)| seen.id == Some(u32::try_from(at).unwrap()) && seen.data["event_index"] == at));
}

#[tokio::test]
async fn a_resumed_stream_says_what_is_stored_and_when_it_is_live() {
    let stage = Stage::with(quick());
    let run = stage.accepted(&[("message", "x")]).await;
    let mut pending = stage.resume(run, None).await;
    assert_eq!(pending.next().await.unwrap().event, "subscribed");
    let mut worker = stage.worker().await;
    worker.start().await;
    let mut running = stage.resume(run, None).await;
    let events = [running.next().await.unwrap(), running.next().await.unwrap(), running.next().await.unwrap()].map(|seen| (seen.id, seen.event));
    assert_eq!(events, [(None, "catch_up".into()), (Some(0), "RunStarted".into()), (None, "subscribed".into())]);
    worker.complete("x").await;
    assert_eq!(running.next().await.unwrap().event, "RunCompleted");
    assert!(running.next().await.is_none());
    assert_eq!(pending.frames().await.len(), 2);
    let mut ended = stage.resume(run, Some(0)).await;
    let first = ended.next().await.unwrap();
    assert_eq!((first.id, first.event.as_str(), &first.data["status"]), (None, "replay", &json!("COMPLETED")));
    assert_eq!(ended.frames().await.len(), 1);
}

#[tokio::test]
async fn beyond_the_end_there_is_nothing_and_a_browser_is_told_to_stop() {
    let stage = Stage::with(quick());
    let run = stage.accepted(&[("message", "x")]).await;
    let mut worker = stage.worker().await;
    worker.start().await;
    worker.complete("x").await;
    for last in [1, 2, u32::MAX] {
        let answer = stage.resume(run, Some(last)).await.read().await;
        assert_eq!((answer.status, answer.text.as_str()), (StatusCode::OK, ""));
        let answer = stage.ask(resume(run, &last.to_string())).await;
        assert_eq!((answer.status, answer.text.as_str()), (StatusCode::NO_CONTENT, ""));
        let mut post = form(&format!("/agents/echo/runs/{run}/resume"), &[]);
        post.headers_mut().insert("last-event-id", HeaderValue::from_str(&last.to_string()).unwrap());
        let answer = stage.ask(post).await;
        assert_eq!((answer.status, answer.text.as_str()), (StatusCode::OK, ""));
    }
    assert_eq!(stage.send(resume(run, "0")).await.frames().await.len(), 1);
    // How far a browser has come stands in the header; the address is the one it began with.
    let both = Request::get(format!("/agents/echo/runs/{run}/resume?last_event_index=-1")).header("last-event-id", "0").body(Body::empty()).unwrap();
    assert_eq!(stage.send(both).await.frames().await.len(), 1);
    let answer = stage.ask(form(&format!("/agents/echo/runs/{run}/resume"), &[("last_event_index", "0")])).await;
    assert!(answer.text.contains("id: 1") && !answer.text.contains("id: 0"));
}

#[tokio::test]
async fn what_cannot_be_resumed_is_refused() {
    let stage = Stage::with(quick());
    let run = stage.accepted(&[("message", "x"), ("session_id", "s")]).await;
    for bad in ["x", "1.5", "-2"] {
        assert_eq!(stage.ask(resume(run, bad)).await.faulty(), ["Last-Event-ID"]);
        assert_eq!(stage.get(&format!("/agents/echo/runs/{run}/resume?last_event_index={bad}")).await.faulty(), ["last_event_index"]);
    }
    for path in ["echo/runs/01890a5d-ac96-774b-bcce-b302099a8057", "echo/runs/x", &format!("other/runs/{run}"), &format!("nobody/runs/{run}")] {
        assert_eq!(stage.get(&format!("/agents/{path}/resume")).await.status, StatusCode::NOT_FOUND, "{path}");
    }
    assert_eq!(stage.get(&format!("/agents/echo/runs/{run}/resume?session_id=t")).await.detail(), "Run not found");
}

#[tokio::test]
async fn a_comment_comes_while_nothing_happens() {
    let stage = Stage::with(Options { keepalive: Duration::from_millis(10), ..quick() });
    let mut open = stage.send(form("/agents/echo/runs", &[("message", "x")])).await;
    for _ in 0..3 {
        assert_eq!(open.next().await.unwrap().event, ": keepalive");
    }
}

#[tokio::test]
async fn a_stream_ends_before_the_time_limit_and_goes_on_without_a_gap() {
    let stage = Stage::with(Options { stream_limit: Some(Duration::from_millis(60)), ..quick() });
    let mut open = stage.send(form("/agents/echo/runs", &[("message", "x")])).await;
    let mut worker = stage.worker().await;
    let run = worker.run_id;
    worker.start().await;
    // A run that never pauses does not keep its stream.
    let writing = tokio::spawn(async move {
        for line in 0..400 {
            worker.say(&[&format!("{line}\n")]).await;
            worker.signal();
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        worker.complete("done").await;
    });
    let (mut got, mut streams) = (Vec::new(), 0);
    loop {
        streams += 1;
        let mut last = String::new();
        while let Some(seen) = open.next().await {
            last.clone_from(&seen.event);
            got.extend(seen.id);
        }
        if last == "RunCompleted" {
            break;
        }
        assert_eq!(last, "retry: 1000");
        open = stage.send(resume(run, &got.last().map_or_else(|| "-1".into(), ToString::to_string))).await;
    }
    writing.await.unwrap();
    assert!(streams > 2, "{streams}");
    assert_eq!(got, (0..402).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_foreground_submission_answers_with_the_run() {
    let stage = Stage::with(quick());
    let (answer, ()) = tokio::join!(stage.form(&[("message", "hi"), ("stream", "false")]), async {
        let mut worker = loop {
            match stage.get("/agents/echo/runs").await.json()["data"].as_array().unwrap().len() {
                0 => tokio::time::sleep(Duration::from_millis(1)).await,
                _ => break stage.worker().await,
            }
        };
        worker.start().await;
        worker.complete("there").await;
    });
    assert_eq!((answer.status, answer.json()["content"].as_str()), (StatusCode::OK, Some("there")));
    assert!(answer.headers.contains_key("location"));
}

#[tokio::test]
async fn a_foreground_run_that_failed_is_200_and_500_where_its_turn_never_started() {
    let stage = Stage::with(quick());
    for (started, status) in [(true, StatusCode::OK), (false, StatusCode::INTERNAL_SERVER_ERROR)] {
        let fields = [("message", "hi"), ("stream", "false"), ("background", "true")];
        let key = |fields: &[(&str, &str)]| {
            let mut request = form("/agents/echo/runs", fields);
            request.headers_mut().insert("idempotency-key", HeaderValue::from_static(if started { "a" } else { "b" }));
            request
        };
        let first = stage.ask(key(&fields)).await.json();
        let mut worker = stage.worker().await;
        let waiting = tokio::spawn({
            let (stage, request) = (stage.clone(), key(&fields[..2]));
            async move { stage.ask(request).await }
        });
        if started {
            worker.start().await;
        }
        worker.fail("/no/such/program", started).await;
        // The retry that waited, and one that comes when all is over.
        for answer in [waiting.await.unwrap(), stage.ask(key(&fields[..2])).await] {
            assert_eq!(answer.status, status);
            if started {
                assert_eq!((&answer.json()["status"], &answer.json()["error"]), (&json!("ERROR"), &json!("/no/such/program")));
                assert_eq!(answer.json()["run_id"], first["run_id"]);
            } else {
                assert_eq!(answer.detail(), "/no/such/program");
            }
        }
    }
}

#[tokio::test]
async fn the_wait_for_a_run_is_limited() {
    let stage = Stage::with(Options { wait_limit: Duration::from_millis(20), ..quick() });
    let answer = stage.form(&[("message", "hi"), ("stream", "false")]).await;
    assert_eq!((answer.status, &answer.json()["status"]), (StatusCode::ACCEPTED, &json!("PENDING")));
    let run = answer.json()["run_id"].as_str().unwrap().to_owned();
    assert_eq!(answer.headers["location"], format!("/agents/echo/runs/{run}").as_str());
    assert!(answer.headers.contains_key("retry-after"));
}

#[tokio::test]
async fn a_browser_that_reconnects_while_the_log_is_away_is_asked_to_come_back() {
    let stage = Stage::new();
    let run = stage.accepted(&[("message", "x")]).await;
    stage.reader.down.store(true, Ordering::SeqCst);
    let answer = stage.ask(resume(run, "0")).await;
    assert_eq!((answer.status, answer.text.as_str()), (StatusCode::OK, "retry: 1000\n\n"));
    assert_eq!(answer.headers["content-type"], "text/event-stream");
    assert_eq!(answer.headers["cache-control"], "no-store");
    // Who does not come back by itself is told.
    assert_eq!(stage.get(&format!("/agents/echo/runs/{run}/resume")).await.status, StatusCode::SERVICE_UNAVAILABLE);
    stage.reader.down.store(false, Ordering::SeqCst);
    // What is wrong for good stays wrong.
    assert_eq!(stage.ask(resume(uuid::Uuid::max(), "0")).await.status, StatusCode::NOT_FOUND);
}

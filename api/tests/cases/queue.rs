//! What operators see and do.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use serde_json::json;

use crate::kit::{Answer, File, Stage, multipart};

async fn requeue(stage: &Stage, run: &str) -> Answer {
    stage.ask(Request::post(format!("/queue/jobs/{run}/requeue")).body(Body::empty()).unwrap()).await
}

#[tokio::test]
async fn runs_are_counted_by_status() {
    let stage = Stage::new();
    let empty = stage.get("/queue/stats").await.json();
    assert_eq!((&empty["oldest_pending"], &empty["oldest_pending_age"], &empty["limit"]), (&json!(null), &json!(null), &json!(null)));
    for session in ["a", "b", "c"] {
        stage.accepted(&[("message", "x"), ("session_id", session)]).await;
    }
    stage.worker().await.complete_at_once().await;
    let _running = stage.worker().await;
    stage.memory.advance(5_000);
    let stats = stage.get("/queue/stats").await.json();
    assert_eq!(stats["counts"], json!({ "PENDING": 1, "RUNNING": 1, "COMPLETED": 1, "ERROR": 0, "CANCELLED": 0 }));
    assert!(stats["oldest_pending_age"].as_f64().is_some_and(|age| age >= 5.0), "{stats}");
}

#[tokio::test]
async fn jobs_have_no_bodies_and_come_in_pages() {
    let stage = Stage::new();
    let fields = [("message", "a secret message"), ("stream", "false"), ("background", "true"), ("session_id", "s"), ("user_id", "ann")];
    let file = File("files", "a.txt", "text/plain", b"a secret file");
    let answer = stage.ask(multipart("/agents/echo/runs", &fields, &[file])).await;
    let run = answer.json()["run_id"].as_str().unwrap().to_owned();
    for _ in 0..4 {
        stage.accepted(&[("message", "x")]).await;
    }
    let job = stage.get(&format!("/queue/jobs/{run}")).await;
    let shown = job.json();
    assert_eq!((shown["session_id"].as_str(), shown["user_id"].as_str(), shown["status"].as_str()), (Some("s"), Some("ann"), Some("PENDING")));
    assert_eq!((shown["files"][0]["name"].as_str(), shown["files"][0]["size"].as_u64()), (Some("a.txt"), Some(13)));
    assert!(!job.text.contains("secret"), "{}", job.text);

    let (mut seen, mut path) = (Vec::new(), "/queue/jobs?limit=2".to_owned());
    loop {
        let page = stage.get(&path).await;
        assert!(!page.text.contains("secret"), "{}", page.text);
        let page = page.json();
        seen.extend(page["data"].as_array().unwrap().iter().map(|job| job["run_id"].as_str().unwrap().to_owned()));
        let Some(next) = page["meta"]["next_cursor"].as_str() else { break };
        path = format!("/queue/jobs?limit=2&cursor={next}");
    }
    assert_eq!((seen.len(), seen.last()), (5, Some(&run)));
    let _worker = stage.worker().await;
    let running = stage.get("/queue/jobs?status=running").await.json();
    assert_eq!((running["data"][0]["run_id"].as_str(), running["data"][0]["worker"].as_str()), (Some(run.as_str()), Some("worker")), "{running}");
    assert_eq!(stage.get("/queue/jobs?status=lost").await.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(stage.get("/queue/jobs?cursor=x").await.status, StatusCode::UNPROCESSABLE_ENTITY);
}

#[tokio::test]
async fn an_ended_run_is_requeued_as_a_new_one() {
    let stage = Stage::new();
    let run = stage.accepted(&[("message", "again"), ("session_id", "s"), ("user_id", "ann")]).await.to_string();
    let refused = requeue(&stage, &run).await;
    assert_eq!((refused.status, refused.detail().as_str()), (StatusCode::CONFLICT, "The run has not ended"));
    let mut worker = stage.worker().await;
    worker.start().await;
    worker.fail("exit 3", true).await;
    let failed = stage.get(&format!("/queue/jobs/{run}")).await.json();
    assert_eq!((failed["status"].as_str(), failed["error"].as_str(), failed["error_type"].as_str()), (Some("ERROR"), Some("exit 3"), Some("exit")));

    let answer = requeue(&stage, &run).await;
    assert_eq!(answer.status, StatusCode::ACCEPTED, "{}", answer.text);
    let new = answer.json();
    assert_eq!((new["requeued_from"].as_str(), new["session_id"].as_str(), new["status"].as_str()), (Some(run.as_str()), Some("s"), Some("PENDING")));
    assert_ne!(new["run_id"], run);
    let location = answer.headers["location"].to_str().unwrap().to_owned();
    let read = stage.get(&location).await.json();
    assert_eq!((&read["run_id"], read["input"]["input_content"].as_str(), read["user_id"].as_str()), (&new["run_id"], Some("again"), Some("ann")));
    stage.worker().await.complete_at_once().await;
    assert_eq!(stage.get(&location).await.json()["status"], "COMPLETED");
    assert_eq!(stage.get(&format!("/agents/echo/runs/{run}")).await.json()["status"], "ERROR");
}

#[tokio::test]
async fn what_is_no_run_is_not_found() {
    let stage = Stage::new();
    for run in ["01890a5d-ac96-774b-bcce-b302099a8057", "x", "01890a5dac96774bbcceb302099a8057"] {
        let answers = [stage.get(&format!("/queue/jobs/{run}")).await, requeue(&stage, run).await];
        for answer in answers {
            assert_eq!((answer.status, answer.detail().as_str()), (StatusCode::NOT_FOUND, "Run not found"), "{run}");
        }
    }
}

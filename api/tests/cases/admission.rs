//! Checks 6 to 12 of a submission, which the log and the deployment decide: their texts, their order, and that a refusal leaves nothing.

use adapters::{Driver, HostSeen};
use api::{Checkpoints, Options};
use axum::body::Body;
use axum::http::{HeaderValue, Request, StatusCode};

use crate::kit::{Answer, Broken, Stage, form};

const RUNS: &str = "/agents/echo/runs";
const NO_QUEUE: (u16, &str) = (400, "Sandbox API execution requires a durable queue with shared session admission");
const DIFFERS: (u16, &str) = (500, "The table sandlog.runs differs");
const CHECKPOINTS: (u16, &str) = (500, "Sandbox checkpoints default to /data/checkpoints, which other workers cannot read; set SANDLOG_CHECKPOINTS");
const KEY_LENGTH: (u16, &str) = (422, "");
const KEY_INPUT: (u16, &str) = (409, "Idempotency-Key already has different input or options");
const OWNER: (u16, &str) = (404, "Session not found");
const FULL: (u16, &str) = (429, "Job queue is full");

/// A submission with everything wrong that a check from 9 on looks at, as far as `wrong` says: the key's length, a known key, the owner.
fn submission(wrong: &[&str]) -> Request<Body> {
    let long = "k".repeat(513);
    let is = |what: &str| wrong.contains(&what);
    let session = if is("owner") { "anns" } else { "new" };
    let mut request = form(RUNS, &[("message", "y"), ("session_id", session), ("stream", "false"), ("background", "true")]);
    let key = if is("length") { Some(long.as_str()) } else { is("key").then_some("known") };
    if let Some(key) = key {
        request.headers_mut().insert("idempotency-key", HeaderValue::from_str(key).unwrap());
    }
    request
}

/// The log has a session of Ann, and a known key in the session `new`: two runs that wait, as many as may.
async fn stage(checkpoints: Checkpoints) -> Stage {
    let stage = Stage::with(Options { queue_limit: Some(2), checkpoints: Checkpoints::Named, ..Options::default() });
    stage.accepted(&[("message", "x"), ("session_id", "anns"), ("user_id", "ann")]).await;
    let mut known = form(RUNS, &[("message", "x"), ("session_id", "new"), ("stream", "false"), ("background", "true")]);
    known.headers_mut().insert("idempotency-key", HeaderValue::from_static("known"));
    assert_eq!(stage.ask(known).await.status, StatusCode::ACCEPTED);
    let options = Options { queue_limit: Some(2), checkpoints, ..Options::default() };
    let router = api::router(api::Parts { options, ..stage.parts.clone() });
    Stage { router, ..stage }
}

async fn two_hosts(stage: &Stage) {
    let host = |name: &str| HostSeen { host: name.into(), kind: "namespace".into(), label: name.into() };
    stage.memory.heartbeat(&[], &[host("a"), host("b")], 1000).await.unwrap();
}

fn told(answer: &Answer) -> (u16, String) {
    let detail = answer.json()["detail"].as_str().map(ToOwned::to_owned);
    (answer.status.as_u16(), detail.unwrap_or_default())
}

/// How much the log has of everything.
async fn kept(stage: &Stage) -> String {
    let (runs, sessions, jobs) = (stage.get(RUNS).await, stage.get("/sessions").await, stage.get("/queue/stats").await.json()["counts"].clone());
    format!("{} {} {jobs}", runs.text, sessions.text)
}

#[tokio::test]
async fn of_any_two_checks_that_fail_the_earlier_answers_and_nothing_is_left() {
    let folder = || "/data/checkpoints".into();
    // In order. The known key is of the session `new`, so one request cannot have a known key's other input and another owner's session at once.
    let checks = [
        ("missing", NO_QUEUE),
        ("differs", DIFFERS),
        ("hosts", CHECKPOINTS),
        ("length", KEY_LENGTH),
        ("key", KEY_INPUT),
        ("owner", OWNER),
        ("full", FULL),
    ];
    for (first, (name, (status, text))) in checks.iter().enumerate() {
        for (other, _) in &checks[first..] {
            let wrong = [*name, *other];
            let is = |what: &str| wrong.contains(&what);
            if is("key") && (is("owner") || is("length")) || is("missing") && is("differs") && name != other {
                continue;
            }
            let stage = stage(Checkpoints::OneHost(folder())).await;
            if is("hosts") {
                two_hosts(&stage).await;
            }
            if !is("full") {
                // Room again: one that waited is gone.
                let waiting = stage.get(&format!("{RUNS}?status=PENDING")).await.json()["data"][0]["run_id"].as_str().unwrap().to_owned();
                stage.ask(Request::post(format!("{RUNS}/{waiting}/cancel")).body(Body::empty()).unwrap()).await;
            }
            *stage.gate.broken.lock().unwrap() = if is("missing") { Some(Broken::Missing) } else { is("differs").then_some(Broken::Differs) };
            let before = kept(&stage).await;
            let answer = stage.ask(submission(&wrong)).await;
            assert_eq!(told(&answer), (*status, (*text).to_owned()), "{wrong:?}: {}", answer.text);
            assert_eq!(answer.headers.contains_key("retry-after"), *status == 429, "{wrong:?}");
            assert!(!answer.text.contains("secret"), "{}", answer.text);
            *stage.gate.broken.lock().unwrap() = None;
            assert_eq!(kept(&stage).await, before, "{wrong:?}");
        }
    }
}

#[tokio::test]
async fn a_retry_is_answered_when_the_queue_is_full() {
    let stage = stage(Checkpoints::Named).await;
    let mut retry = form(RUNS, &[("message", "x"), ("session_id", "new"), ("stream", "false"), ("background", "true")]);
    retry.headers_mut().insert("idempotency-key", HeaderValue::from_static("known"));
    let answer = stage.ask(retry).await;
    assert_eq!((answer.status, answer.json()["status"].as_str()), (StatusCode::ACCEPTED, Some("PENDING")), "{}", answer.text);
    assert_eq!(told(&stage.ask(submission(&[])).await), (FULL.0, FULL.1.to_owned()));
}

#[tokio::test]
async fn functions_without_checkpoints_that_others_read_accept_nothing() {
    let stage = stage(Checkpoints::OneFunction("/data/checkpoints".into())).await;
    let before = kept(&stage).await;
    for wrong in [&[][..], &["length"], &["key"], &["owner"]] {
        assert_eq!(told(&stage.ask(submission(wrong)).await), (CHECKPOINTS.0, CHECKPOINTS.1.to_owned()), "{wrong:?}");
    }
    *stage.gate.broken.lock().unwrap() = Some(Broken::Missing);
    assert_eq!(told(&stage.ask(submission(&[])).await), (NO_QUEUE.0, NO_QUEUE.1.to_owned()));
    *stage.gate.broken.lock().unwrap() = None;
    assert_eq!(kept(&stage).await, before);
    // What does not validate comes before all of these.
    assert_eq!(stage.form(&[]).await.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(stage.form(&[("message", "x"), ("version", "1")]).await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn health_says_that_nothing_is_accepted_and_to_nobody_where() {
    let told = async |stage: &Stage| {
        let answer = stage.get("/health").await;
        assert_eq!(answer.status, StatusCode::OK);
        assert!(!answer.text.contains("/data") && !answer.text.contains("secret"), "{}", answer.text);
        let submissions = answer.json()["submissions"].clone();
        (submissions["status"].as_str().unwrap().to_owned(), submissions["reason"].as_str().unwrap_or_default().to_owned())
    };
    let one = stage(Checkpoints::OneHost("/data/checkpoints".into())).await;
    assert_eq!(told(&one).await, ("ok".into(), String::new()));
    let function = stage(Checkpoints::OneFunction("/data/checkpoints".into())).await;
    let (status, reason) = told(&function).await;
    assert!(status == "refused" && reason.contains("SANDLOG_CHECKPOINTS"), "{status} {reason}");
    for (broken, word) in [(None, "SANDLOG_CHECKPOINTS"), (Some(Broken::Missing), "takes no runs"), (Some(Broken::Differs), "a table")] {
        let stage = stage(Checkpoints::OneHost("/data/checkpoints".into())).await;
        two_hosts(&stage).await;
        *stage.gate.broken.lock().unwrap() = broken;
        let (status, reason) = told(&stage).await;
        assert!(status == "refused" && reason.contains(word), "{status} {reason}");
    }
}

#[tokio::test]
async fn workers_of_two_hosts_do_no_harm_where_somebody_said_where_checkpoints_are() {
    let stage = Stage::new();
    two_hosts(&stage).await;
    stage.accepted(&[("message", "x")]).await;
    let one = Stage::with(Options { checkpoints: Checkpoints::OneHost("/d".into()), ..Options::default() });
    one.accepted(&[("message", "x")]).await;
}

#[tokio::test]
async fn a_requeue_passes_by_no_check_of_the_deployment() {
    for checkpoints in [Checkpoints::OneHost("/data/checkpoints".into()), Checkpoints::OneFunction("/data/checkpoints".into())] {
        let stage = stage(checkpoints).await;
        two_hosts(&stage).await;
        let run = stage.get(&format!("{RUNS}?status=PENDING")).await.json()["data"][0]["run_id"].as_str().unwrap().to_owned();
        stage.ask(Request::post(format!("{RUNS}/{run}/cancel")).body(Body::empty()).unwrap()).await;
        let before = kept(&stage).await;
        let requeue = |run: &str| Request::post(format!("/queue/jobs/{run}/requeue")).body(Body::empty()).unwrap();
        assert_eq!(told(&stage.ask(requeue(&run)).await), (CHECKPOINTS.0, CHECKPOINTS.1.to_owned()));
        assert_eq!(stage.ask(requeue("01890a5d-ac96-774b-bcce-b302099a8057")).await.status, StatusCode::NOT_FOUND);
        assert_eq!(kept(&stage).await, before);
    }
}

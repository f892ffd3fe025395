//! A retry gets the run that it already started; anything else under the same key is refused (docs/API.md).

use e2e::http::{Http, Submit, body, refused, text};
use e2e::unique;
use reqwest::StatusCode;

const SCOPE: &str = "Idempotency-Key belongs to a different submission scope";
const INPUT: &str = "Idempotency-Key already has different input or options";

on_all_shapes!(
    a_retry_is_the_same_run,
    a_retry_may_ask_for_another_mode,
    another_scope_is_refused,
    other_input_is_refused,
    a_key_has_a_length,
    many_at_once_start_one,
    a_refused_submission_takes_no_key,
);

fn once(key: &str) -> Submit {
    Submit::message("say once").key(key)
}

async fn a_retry_is_the_same_run(http: Http) {
    let key = unique("k");
    let first = http.background(once(&key)).await;
    let second = http.background(once(&key).on(1)).await;
    assert_eq!((&first["run_id"], &first["session_id"]), (&second["run_id"], &second["session_id"]));
}

async fn a_retry_may_ask_for_another_mode(http: Http) {
    let key = unique("k");
    let first = http.background(once(&key)).await;
    let run = http.foreground(once(&key)).await;
    assert_eq!((&run["run_id"], run["content"].as_str()), (&first["run_id"], Some("once\n")));
    let got = http.stream(once(&key).on(1), None).await.whole(0);
    assert_eq!(got.run_id(), text(&first, "run_id"));
}

async fn another_scope_is_refused(http: Http) {
    let (key, session) = (unique("k"), unique("s"));
    http.background(once(&key).field("session_id", &session)).await;
    let changed = [
        once(&key).field("session_id", unique("s")),
        once(&key),
        once(&key).field("session_id", &session).field("user_id", "somebody"),
        once(&key).field("session_id", &session).agent("other"),
    ];
    for submit in changed {
        refused(http.submit(submit.on(1).background()).await, 409, SCOPE).await;
    }
}

async fn other_input_is_refused(http: Http) {
    let key = unique("k");
    http.background(once(&key).file("a.txt", "text/plain", b"one")).await;
    let changed = [
        Submit::message("say twice").key(&key).file("a.txt", "text/plain", b"one"),
        once(&key).file("a.txt", "text/plain", b"two"),
        once(&key).file("b.txt", "text/plain", b"one"),
        once(&key),
        once(&key).file("a.txt", "text/plain", b"one").field("output_schema", r#"{"type":"object"}"#),
    ];
    for submit in changed {
        refused(http.submit(submit.on(1).background()).await, 409, INPUT).await;
    }
}

async fn a_key_has_a_length(http: Http) {
    let start = unique("k");
    let key = |length: usize| start.clone() + &"k".repeat(length - start.len());
    assert_eq!(http.submit(once(&key(513)).background()).await.status(), StatusCode::UNPROCESSABLE_ENTITY);
    http.background(once(&key(512))).await;
}

async fn many_at_once_start_one(http: Http) {
    let (key, session) = (unique("k"), unique("s"));
    let asked = (0..20).map(|instance| http.background(once(&key).field("session_id", &session).on(instance)));
    let answers = futures_util::future::join_all(asked).await;
    assert!(answers.iter().all(|answer| answer["run_id"] == answers[0]["run_id"]));
    assert_eq!(http.runs(&session).await.len(), 1);
}

async fn a_refused_submission_takes_no_key(http: Http) {
    let key = unique("k");
    assert_eq!(http.submit(once(&key).field("version", 1).background()).await.status(), StatusCode::BAD_REQUEST);
    body(http.submit(once(&key).background()).await, StatusCode::ACCEPTED).await;
}

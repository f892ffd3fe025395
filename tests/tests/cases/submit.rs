//! Submitting: the modes, what is refused and in what words (docs/API.md).

use std::time::{Duration, Instant};

use e2e::http::{ENDED, Http, Submit, body, refused, text};
use e2e::unique;
use reqwest::{Method, StatusCode};
use serde_json::json;
use sha2::{Digest, Sha256};

on_all_shapes!(
    background_is_accepted_with_a_location,
    foreground_is_the_finished_run,
    a_stream_begins_and_ends_as_it_should,
    frames_come_while_the_run_goes_on,
    a_json_body_is_taken_as_a_form_is,
    an_unknown_agent_is_not_found,
    a_message_is_needed,
    metadata_is_an_object_or_refused,
    what_a_sandboxed_run_does_not_take_is_named,
    an_attachment_arrives_byte_for_byte,
    an_attachment_that_cannot_be_taken_is_refused,
    a_failing_run_says_why,
    a_run_that_never_started_is_an_error_of_the_server,
    a_refusal_leaves_nothing,
);

async fn background_is_accepted_with_a_location(http: Http) {
    let answer = http.submit(Submit::message("say hi").background()).await;
    let location = answer.headers()["location"].to_str().expect("text").to_owned();
    let accepted = body(answer, StatusCode::ACCEPTED).await;
    assert_eq!(accepted["status"], "PENDING");
    assert!(!text(&accepted, "session_id").is_empty());
    let run_id = text(&accepted, "run_id");
    assert!(location.contains(&run_id), "{location}");
    assert_eq!(http.wait(&run_id, &ENDED).await["content"], "hi\n");
}

async fn foreground_is_the_finished_run(http: Http) {
    let run = http.foreground(Submit::message("say one\nsay two")).await;
    assert_eq!((&run["status"], &run["content"], &run["agent_id"]), (&json!("COMPLETED"), &json!("one\ntwo\n"), &json!("echo")));
    assert_eq!(run["input"]["input_content"], "say one\nsay two");
}

async fn a_stream_begins_and_ends_as_it_should(http: Http) {
    let got = http.stream(Submit::message("say a\nsay b"), None).await.whole(0);
    assert_eq!((&got.0[0]["event"], got.last_event().as_str()), (&json!("RunStarted"), "RunCompleted"));
    assert_eq!(got.text(), "a\nb\n");
    assert_eq!(got.0.last().expect("a frame")["content"], "a\nb\n");
    assert!(got.0.iter().all(|frame| frame["run_id"] == got.0[0]["run_id"] && frame["agent_id"] == "echo" && frame["session_id"].is_string()));
}

async fn frames_come_while_the_run_goes_on(http: Http) {
    let begun = Instant::now();
    let head = http.stream(Submit::message("say now\ntick 600 0.1"), Some(3)).await;
    assert!(begun.elapsed() < Duration::from_secs(30), "the frames of a run of a minute came after {:?}", begun.elapsed());
    let run = body(http.run(&head.run_id(), 0).await, StatusCode::OK).await;
    assert_eq!(run["status"], "RUNNING");
    http.cancel(&head.run_id(), 0).await;
}

async fn a_json_body_is_taken_as_a_form_is(http: Http) {
    let request = http.request(Method::POST, 0, "/agents/echo/runs");
    let answer = request.json(&json!({"message": "say json", "stream": false, "background": false})).send().await.expect("an answer");
    assert_eq!(body(answer, StatusCode::OK).await["content"], "json\n");
}

async fn an_unknown_agent_is_not_found(http: Http) {
    let answer = http.submit(Submit::message("x").agent("nobody").background()).await;
    refused(answer, 404, "Agent not found").await;
}

async fn a_message_is_needed(http: Http) {
    for fields in [vec![("stream", "false")], vec![("stream", "false"), ("message", "")]] {
        let answer = http.request(Method::POST, 0, "/agents/echo/runs").form(&fields).send().await.expect("an answer");
        let told = body(answer, StatusCode::UNPROCESSABLE_ENTITY).await;
        let first = &told["detail"][0];
        assert!(first["loc"].is_array() && first["msg"].is_string() && first["type"].is_string(), "{told}");
    }
}

async fn metadata_is_an_object_or_refused(http: Http) {
    for metadata in ["[1]", "not json", "\"text\"", "7"] {
        let answer = http.submit(Submit::message("x").field("metadata", metadata).background()).await;
        refused(answer, 400, "Invalid metadata parameter: expected a JSON object").await;
    }
    let run = http.foreground(Submit::message("say x").field("metadata", r#"{"a":{"b":1}}"#)).await;
    assert_eq!(run["metadata"], json!({"a": {"b": 1}}));
}

async fn what_a_sandboxed_run_does_not_take_is_named(http: Http) {
    for option in ["session_state", "dependencies", "knowledge_filters", "no_such_option"] {
        let told = body(http.submit(Submit::message("x").field(option, "{}").background()).await, StatusCode::BAD_REQUEST).await;
        let detail = text(&told, "detail");
        assert!(detail.starts_with("Unsupported sandbox run options:") && detail.contains(option), "{detail}");
    }
    let answer = http.submit(Submit::message("x").field("version", 3).background()).await;
    refused(answer, 400, "Sandboxed runs use the registered agent; version pinning is not supported").await;
}

async fn an_attachment_arrives_byte_for_byte(http: Http) {
    let content: Vec<u8> = (0..=255).cycle().take(20_000).collect();
    let run = http.foreground(Submit::message("files").file("data.txt", "text/plain", &content)).await;
    let digest: String = Sha256::digest(&content).iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(text(&run, "content").contains(&digest), "{run}");
}

async fn an_attachment_that_cannot_be_taken_is_refused(http: Http) {
    for (name, media_type) in [("a.mp3", "audio/mpeg"), ("a.mp4", "video/mp4")] {
        let answer = http.submit(Submit::message("x").file(name, media_type, b"abc").background()).await;
        refused(answer, 400, "Sandboxed runs accept images and files; audio and video are not supported").await;
    }
    let told = body(http.submit(Submit::message("x").file("empty.txt", "text/plain", b"").background()).await, StatusCode::BAD_REQUEST).await;
    assert!(text(&told, "detail").contains("empty.txt"), "{told}");
}

async fn a_failing_run_says_why(http: Http) {
    let run = http.foreground(Submit::message("say before\nfail it broke")).await;
    assert_eq!(run["status"], "ERROR");
    assert!(text(&run, "error").contains("it broke"), "{run}");
    let got = http.stream(Submit::message("fail it broke"), None).await.whole(0);
    assert_eq!(got.last_event(), "RunError");
    assert!(text(got.0.last().expect("a frame"), "content").contains("it broke"));
}

async fn a_run_that_never_started_is_an_error_of_the_server(http: Http) {
    let answer = http.submit(Submit::message("x").agent("missing").foreground()).await;
    let told = body(answer, StatusCode::INTERNAL_SERVER_ERROR).await;
    assert!(text(&told, "detail").contains("/no/such/program"), "{told}");
}

async fn a_refusal_leaves_nothing(http: Http) {
    let session = unique("s");
    let answer = http.submit(Submit::message("x").field("version", 1).field("session_id", &session).background()).await;
    assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
    assert_eq!(http.get(&format!("/sessions/{session}")).await.status(), StatusCode::NOT_FOUND);
}

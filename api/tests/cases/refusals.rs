//! What is refused: the checks, their texts and their order; and that a refusal leaves nothing.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use serde_json::json;

use crate::kit::{File, Stage, form, json as json_body, multipart};

const RUNS: &str = "/agents/echo/runs";

#[tokio::test]
async fn an_unknown_agent_comes_before_a_bad_body() {
    let stage = Stage::new();
    let answer = stage.ask(form("/agents/nobody/runs", &[("stream", "maybe")])).await;
    assert_eq!((answer.status, answer.detail().as_str()), (StatusCode::NOT_FOUND, "Agent not found"));
}

#[tokio::test]
async fn every_field_that_does_not_validate_is_named() {
    let stage = Stage::new();
    assert_eq!(stage.form(&[]).await.faulty(), ["message"]);
    assert_eq!(stage.form(&[("message", "")]).await.faulty(), ["message"]);
    let long = "é".repeat(129);
    let fields =
        [("message", "a\0b"), ("stream", "maybe"), ("background", "2"), ("session_id", long.as_str()), ("user_id", "x\0"), ("output_schema", "[]")];
    assert_eq!(stage.form(&fields).await.faulty(), ["message", "stream", "background", "session_id", "user_id", "output_schema"]);
    for body in [json!({ "message": 1 }), json!({ "message": "x", "session_id": ["s"] }), json!({ "message": "x", "stream": {} })] {
        assert_eq!(stage.ask(json_body(RUNS, &body)).await.faulty().len(), 1, "{body}");
    }
    assert_eq!(stage.form(&[("message", "a"), ("message", "b")]).await.faulty(), ["message"]);
    assert_eq!(stage.form(&[("message", "a"), ("images", "{}")]).await.faulty(), ["images"]);
    assert_eq!(stage.form(&[("message", "a"), ("input_files", r#"[{"url": "http://x"}]"#)]).await.faulty(), ["input_files"]);
    assert_eq!(stage.form(&[("message", "a"), ("input_files", r#"[{"content": "not base64!"}]"#)]).await.faulty(), ["input_files"]);
    assert!(stage.is_empty().await);
}

#[tokio::test]
async fn an_id_of_128_characters_is_taken() {
    let stage = Stage::new();
    let id = "é".repeat(128);
    let run = stage.accepted(&[("message", "x"), ("session_id", &id), ("user_id", &id)]).await;
    assert_eq!(stage.get(&format!("{RUNS}/{run}")).await.json()["session_id"], json!(id));
}

#[tokio::test]
async fn a_malformed_body_is_422() {
    let stage = Stage::new();
    let of = |kind: &str, body: &'static [u8]| Request::post(RUNS).header("content-type", kind).body(Body::from(body)).unwrap();
    let cases = [
        of("application/json", b"{"),
        of("application/json", b"[1]"),
        of("application/json", b"\"\\ud800\""),
        of("application/json", b"{\"message\": \"\\ud800\"}"),
        of("application/x-www-form-urlencoded", b"message=%ff"),
        of("multipart/form-data", b"x"),
        of("multipart/form-data; boundary=b", b"--b\r\nnonsense"),
        of("multipart/form-data; boundary=b", b"--b\r\nContent-Disposition: form-data; name=\"message\"\r\n\r\n\xff\r\n--b--\r\n"),
        of("text/plain", b"message=x"),
        Request::post(RUNS).body(Body::empty()).unwrap(),
    ];
    for (number, case) in cases.into_iter().enumerate() {
        let answer = stage.ask(case).await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "case {number}: {}", answer.text);
        assert!(answer.json()["detail"].is_array());
    }
    assert!(stage.is_empty().await);
}

#[tokio::test]
async fn metadata_that_is_no_object_is_refused_after_what_does_not_validate() {
    let stage = Stage::new();
    for metadata in ["[1]", "not json", "\"text\"", "", r#"{"a": "\u0000"}"#] {
        let answer = stage.form(&[("message", "x"), ("metadata", metadata), ("version", "1")]).await;
        let expected = (StatusCode::BAD_REQUEST, "Invalid metadata parameter: expected a JSON object");
        assert_eq!((answer.status, answer.detail().as_str()), expected, "{metadata}");
    }
    assert_eq!(stage.form(&[("metadata", "[1]")]).await.faulty(), ["message"]);
}

#[tokio::test]
async fn options_that_we_do_not_have_are_named_all_of_them() {
    let stage = Stage::new();
    let answer = stage.form(&[("message", "x"), ("session_state", "{}"), ("version", "1"), ("knowledge_filters", ""), ("dependencies", "{}")]).await;
    let expected = "Unsupported sandbox run options: dependencies, knowledge_filters, session_state";
    assert_eq!((answer.status, answer.detail().as_str()), (StatusCode::BAD_REQUEST, expected));
    let answer = stage.ask(multipart(RUNS, &[("message", "x")], &[File("photo", "a.png", "image/png", b"x")])).await;
    assert_eq!(answer.detail(), "Unsupported sandbox run options: photo");
    // A checkout that it would pin is not there.
    let pinned = r#"{"repository": {"branch": "main"}}"#;
    let answer = stage.form(&[("message", "x"), ("metadata", pinned), ("version", "1"), ("session_state", "{}")]).await;
    let expected = "Unsupported sandbox run options: metadata.repository, session_state";
    assert_eq!((answer.status, answer.detail().as_str()), (StatusCode::BAD_REQUEST, expected));
    let answer =
        stage.ask(json_body(RUNS, &json!({ "message": "x", "metadata": { "repository": { "commit": "a" }, "large": "x".repeat(65536) } }))).await;
    assert_eq!((answer.status, answer.detail().as_str()), (StatusCode::BAD_REQUEST, "Unsupported sandbox run options: metadata.repository"));
    // What is null is not given.
    let answer =
        stage.ask(json_body(RUNS, &json!({ "message": "x", "version": null, "session_state": null, "stream": false, "background": true }))).await;
    assert_eq!(answer.status, StatusCode::ACCEPTED, "{}", answer.text);
}

#[tokio::test]
async fn a_version_comes_before_audio_and_audio_before_an_empty_upload() {
    let stage = Stage::new();
    let files = [File("files", "empty.txt", "text/plain", b""), File("files", "a.mp3", "audio/mpeg", b"ID3")];
    let answer = stage.ask(multipart(RUNS, &[("message", "x"), ("version", "3")], &files)).await;
    let version = "Sandboxed runs use the registered agent; version pinning is not supported";
    assert_eq!((answer.status, answer.detail().as_str()), (StatusCode::BAD_REQUEST, version));
    let answer = stage.ask(multipart(RUNS, &[("message", "x")], &files)).await;
    let media = "Sandboxed runs accept images and files; audio and video are not supported";
    assert_eq!((answer.status, answer.detail().as_str()), (StatusCode::BAD_REQUEST, media));
    let answer = stage.form(&[("message", "x"), ("videos", r#"[{"content": "eA=="}]"#)]).await;
    assert_eq!(answer.detail(), media);
    let answer = stage.ask(multipart(RUNS, &[("message", "x")], &files[..1])).await;
    assert_eq!((answer.status, answer.detail().as_str()), (StatusCode::BAD_REQUEST, "Empty upload: empty.txt"));
}

#[tokio::test]
async fn what_is_too_large_is_413_and_names_the_limit() {
    let stage = Stage::new();
    let large = vec![b'x'; 4 * 1024 * 1024 + 1];
    let answer = stage.ask(multipart(RUNS, &[("message", "x")], &[File("files", "a", "text/plain", &large)])).await;
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(answer.detail().contains("4194304"), "{}", answer.text);
    let many: Vec<_> = (0..17).map(|_| File("files", "a", "text/plain", b"x")).collect();
    let answer = stage.ask(multipart(RUNS, &[("message", "x")], &many)).await;
    assert_eq!((answer.status, answer.detail().contains("16")), (StatusCode::PAYLOAD_TOO_LARGE, true));
    let message = "x".repeat(4 * 1024 * 1024 + 1);
    let answer = stage.ask(json_body(RUNS, &json!({ "message": message }))).await;
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
    let huge = "x".repeat(25 * 1024 * 1024);
    let answer = stage.ask(json_body(RUNS, &json!({ "message": huge }))).await;
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
    // Options are checked before sizes, wherever in the body they stand.
    let files = [File("files", "a", "text/plain", &large), File("unknown", "b", "text/plain", b"x")];
    assert_eq!(stage.ask(multipart(RUNS, &[("message", "x")], &files)).await.status, StatusCode::BAD_REQUEST);
    assert!(stage.is_empty().await);
    let fits = &large[1..];
    let fields = [("message", "x"), ("stream", "false"), ("background", "true")];
    let answer = stage.ask(multipart(RUNS, &fields, &[File("files", "a", "text/plain", fits)])).await;
    assert_eq!(answer.status, StatusCode::ACCEPTED, "{}", answer.text);
}

fn keyed(key: &[u8], fields: &[(&str, &str)]) -> Request<Body> {
    let mut request = form(RUNS, fields);
    request.headers_mut().insert("idempotency-key", axum::http::HeaderValue::from_bytes(key).unwrap());
    request
}

#[tokio::test]
async fn a_key_of_more_than_512_characters_is_refused_after_the_options() {
    let stage = Stage::new();
    let fields = [("message", "x"), ("stream", "false"), ("background", "true")];
    let key = "é".repeat(513);
    assert_eq!(stage.ask(keyed(key.as_bytes(), &fields)).await.faulty(), ["Idempotency-Key"]);
    assert_eq!(stage.ask(keyed(b"", &fields)).await.faulty(), ["Idempotency-Key"]);
    assert_eq!(stage.ask(keyed(b"\xff", &fields)).await.faulty(), ["Idempotency-Key"]);
    let answer = stage.ask(keyed(key.as_bytes(), &[&fields[..], &[("version", "1")]].concat())).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    assert!(stage.is_empty().await);
    assert_eq!(stage.ask(keyed("é".repeat(512).as_bytes(), &fields)).await.status, StatusCode::ACCEPTED);
}

#[tokio::test]
async fn another_scope_or_other_input_under_a_key_is_409() {
    let stage = Stage::new();
    let fields = [("message", "x"), ("stream", "false"), ("background", "true")];
    assert_eq!(stage.ask(keyed(b"k", &fields)).await.status, StatusCode::ACCEPTED);
    let answer = stage.ask(keyed(b"k", &[&fields[..], &[("user_id", "ann")]].concat())).await;
    assert_eq!((answer.status, answer.detail().as_str()), (StatusCode::CONFLICT, "Idempotency-Key belongs to a different submission scope"));
    let answer = stage.ask(keyed(b"k", &[&fields[1..], &[("message", "y")]].concat())).await;
    assert_eq!((answer.status, answer.detail().as_str()), (StatusCode::CONFLICT, "Idempotency-Key already has different input or options"));
}

#[tokio::test]
async fn every_answer_is_json_with_a_request_id() {
    let stage = Stage::new();
    for (method, path, status) in [
        ("GET", "/nope", 404),
        ("PUT", RUNS, 405),
        ("DELETE", "/health", 405),
        ("GET", "/agents/%ff/runs", 404),
        ("GET", "/agents/echo/runs/%ff", 404),
        ("GET", "/sessions/%00", 404),
        ("GET", "/agents/%00/runs/01890a5d-ac96-774b-bcce-b302099a8057", 404),
        ("GET", "/agents/echo/runs?session_id=%00", 422),
        ("GET", "/agents/echo/runs?session_id=%ff", 422),
        ("GET", "/agents/echo/runs?limit=0", 422),
        ("GET", "/agents/echo/runs?status=LOST", 422),
        ("GET", "/agents/echo/runs?cursor=x", 422),
        ("GET", "/sessions?page=2", 422),
        ("DELETE", "/sessions/none", 404),
    ] {
        let answer = stage.ask(Request::builder().method(method).uri(path).body(Body::empty()).unwrap()).await;
        assert_eq!(answer.status.as_u16(), status, "{method} {path}: {}", answer.text);
        assert!(!answer.json()["detail"].is_null() && answer.headers.contains_key("x-request-id"), "{method} {path}");
    }
    let with = |id: &str| Request::get("/health").header("x-request-id", id).body(Body::empty()).unwrap();
    assert_eq!(stage.ask(with("mine-1.2:3")).await.headers["x-request-id"], "mine-1.2:3");
    assert_ne!(stage.ask(with("no good")).await.headers["x-request-id"], "no good");
    assert_ne!(stage.ask(with(&"x".repeat(129))).await.headers["x-request-id"].len(), 129);
}

#[tokio::test]
async fn what_went_wrong_inside_stays_inside() {
    let stage = Stage::new();
    stage.reader.down.store(true, std::sync::atomic::Ordering::SeqCst);
    for path in ["/health", "/sessions", "/agents/echo/runs"] {
        let answer = stage.get(path).await;
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(!answer.text.contains("secret"), "{}", answer.text);
    }
    stage.reader.panics.store(true, std::sync::atomic::Ordering::SeqCst);
    let answer = stage.get("/sessions").await;
    assert_eq!((answer.status, answer.detail().as_str()), (StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error"));
}

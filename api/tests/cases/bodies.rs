//! Three encodings, one meaning; and nothing that a client can send is our fault.

use axum::body::Body;
use axum::http::{HeaderValue, Request, StatusCode};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::kit::{File, Stage, form, json as json_body, multipart};

const RUNS: &str = "/agents/echo/runs";

fn with_key(mut request: Request<Body>, key: &'static str) -> Request<Body> {
    request.headers_mut().insert("idempotency-key", HeaderValue::from_static(key));
    request
}

#[tokio::test]
async fn the_same_request_in_any_encoding_is_a_retry() {
    let stage = Stage::new();
    let (metadata, schema) = (r#"{"b": [1, "x"], "a": {"d": 1, "c": 2}}"#, r#"{"type": "object"}"#);
    let files = r#"[{"content": "aGk=", "filename": "a.bin"}]"#;
    let fields = [
        ("message", "x"),
        ("metadata", metadata),
        ("output_schema", schema),
        ("input_files", files),
        ("session_id", "s"),
        ("stream", "false"),
        ("background", "yes"),
    ];
    let body = json!({
        "message": "x", "stream": 0, "background": true, "session_id": "s", "user_id": "",
        "metadata": { "a": { "c": 2, "d": 1 }, "b": [1, "x"] },
        "output_schema": { "type": "object" },
        "input_files": [{ "filename": "a.bin", "content": "aGk=" }],
    });
    let file = File("files", "a.bin", "application/octet-stream", b"hi");
    let without: Vec<_> = fields.into_iter().filter(|(name, _)| *name != "input_files").collect();
    let requests = [form(RUNS, &fields), multipart(RUNS, &fields, &[]), json_body(RUNS, &body), multipart(RUNS, &without, &[file])];
    let mut runs = Vec::new();
    for request in requests {
        let answer = stage.ask(with_key(request, "k")).await;
        assert_eq!(answer.status, StatusCode::ACCEPTED, "{}", answer.text);
        runs.push(answer.json()["run_id"].clone());
    }
    assert!(runs.iter().all(|run| *run == runs[0]), "{runs:?}");
}

#[tokio::test]
async fn any_difference_in_what_is_attached_is_other_input() {
    let stage = Stage::new();
    let fields = [("message", "x"), ("stream", "false"), ("background", "true")];
    let original = || File("files", "a", "text/plain", b"one");
    assert_eq!(stage.ask(with_key(multipart(RUNS, &fields, &[original()]), "k")).await.status, StatusCode::ACCEPTED);
    let others = [
        vec![],
        vec![File("files", "a", "text/plain", b"two")],
        vec![File("files", "b", "text/plain", b"one")],
        vec![File("files", "a", "text/html", b"one")],
        vec![original(), original()],
    ];
    for files in others {
        let answer = stage.ask(with_key(multipart(RUNS, &fields, &files), "k")).await;
        assert_eq!(answer.status, StatusCode::CONFLICT, "{}", answer.text);
    }
}

#[tokio::test]
async fn media_arrive_byte_for_byte_as_agno_sends_them() {
    let stage = Stage::new();
    let files = json!([
        { "id": "1", "mime_type": "text/plain", "filename": "a.txt", "content": "abcd" },
        { "mime_type": "text/plain", "filename": "b.txt", "content": "YWJjZA==" },
        { "id": "3", "content": "/wA=", "name": "c" },
    ]);
    let images = json!([{ "id": "4", "format": "png", "content": "eA==" }]);
    let run = stage.accepted(&[("message", "x"), ("input_files", &files.to_string()), ("images", &images.to_string())]).await;
    let attachments = adapters::Driver::attachments(&*stage.memory, run).await.unwrap();
    let got: Vec<_> = attachments.iter().map(|file| (file.name.as_str(), file.media_type.as_str(), file.body.as_slice())).collect();
    let expected: [(&str, &str, &[u8]); 4] = [
        ("image-1", "image/png", b"x"),
        ("a.txt", "text/plain", b"abcd"),
        ("b.txt", "text/plain", b"abcd"),
        ("c", "application/octet-stream", b"\xff\0"),
    ];
    assert_eq!(got, expected);
    let shown = stage.get(&format!("{RUNS}/{run}")).await.json()["input"]["files"].clone();
    assert_eq!((&shown[1]["name"], &shown[1]["size"]), (&json!("a.txt"), &json!(4)));
}

#[tokio::test]
async fn booleans_are_taken_as_people_write_them() {
    let stage = Stage::new();
    for (stream, background) in [("0", "1"), ("no", "YES"), ("off", "on"), ("False", "True"), ("f", "t")] {
        let answer = stage.form(&[("message", "x"), ("stream", stream), ("background", background)]).await;
        assert_eq!(answer.status, StatusCode::ACCEPTED, "{stream} {background}");
    }
}

#[tokio::test]
async fn a_file_input_that_was_left_empty_is_no_file() {
    let stage = Stage::new();
    let fields = [("message", "x"), ("stream", "false"), ("background", "true"), ("session_id", "")];
    let answer = stage.ask(multipart(RUNS, &fields, &[File("files", "", "application/octet-stream", b"")])).await;
    assert_eq!(answer.status, StatusCode::ACCEPTED, "{}", answer.text);
}

/// Text that is often nearly right.
fn nearly() -> impl Strategy<Value = Vec<u8>> {
    let token = prop_oneof![
        Just(b"message".to_vec()),
        Just(b"=".to_vec()),
        Just(b"&".to_vec()),
        Just(b"%0".to_vec()),
        Just(b"\0".to_vec()),
        Just(b"{\"message\":".to_vec()),
        Just(b"\"x\"".to_vec()),
        Just(b"\\u0000\\ud800".to_vec()),
        Just(b",\"metadata\":".to_vec()),
        Just(b"[".to_vec()),
        Just(b"}".to_vec()),
        Just(b"--b\r\n".to_vec()),
        Just(b"--b--\r\n".to_vec()),
        Just(b"Content-Disposition: form-data; name=\"message\"\r\n\r\n".to_vec()),
        Just(b"Content-Disposition: form-data; name=\"files\"; filename=\"a\"\r\n\r\n".to_vec()),
        Just(b"stream=false&background=true&message=x".to_vec()),
        prop::collection::vec(any::<u8>(), 0..6),
    ];
    prop::collection::vec(token, 0..12).prop_map(|tokens| tokens.concat())
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[\0-\u{7f}é]{0,8}".prop_map(Value::from)
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::vec(("[a\0]{0,2}", inner), 0..3).prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn alone<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn no_body_is_our_fault(body in nearly(), kind in 0usize..4, key in prop::option::of(prop::collection::vec(32u8..=255, 0..4))) {
        let kind = ["application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=b", "application/JSON; charset=utf-8"][kind];
        let mut request = Request::post(RUNS).header("content-type", kind).body(Body::from(body)).unwrap();
        if let Some(key) = key.and_then(|key| HeaderValue::from_bytes(&key).ok()) {
            request.headers_mut().insert("idempotency-key", key);
        }
        let (status, headers) = alone(async {
            let open = Stage::new().send(request).await;
            (open.status, open.headers)
        });
        prop_assert!(status.as_u16() < 500, "{status}");
        prop_assert!(headers.contains_key("x-request-id"));
    }

    #[test]
    fn no_value_of_a_field_is_our_fault(fields in prop::collection::vec((0usize..9, any_json()), 0..5)) {
        let names = ["message", "stream", "background", "session_id", "metadata", "output_schema", "images", "input_files", "version"];
        let fields = fields.into_iter().map(|(name, value)| (names[name].to_owned(), value));
        let body: serde_json::Map<_, _> = [("message".to_owned(), json!("x"))].into_iter().chain(fields).collect();
        let (status, stored) = alone(async {
            let stage = Stage::new();
            let status = stage.send(json_body(RUNS, &Value::Object(body))).await.status;
            (status, stage.get(RUNS).await.text)
        });
        prop_assert!(status.as_u16() < 500, "{status}");
        // What Postgres would refuse is never accepted.
        prop_assert!(!stored.contains("\\u0000"), "{stored}");
    }
}

#[tokio::test]
async fn a_field_given_twice_is_refused_in_any_encoding() {
    let stage = Stage::new();
    let fields = [("message", "one"), ("message", "two"), ("stream", "false"), ("background", "true")];
    let body = r#"{"message": "one", "message": "two", "stream": false, "background": true}"#;
    let json = Request::post(RUNS).header("content-type", "application/json").body(Body::from(body)).unwrap();
    for request in [form(RUNS, &fields), multipart(RUNS, &fields, &[]), json] {
        let answer = stage.ask(request).await;
        assert_eq!((answer.status, answer.faulty()), (StatusCode::UNPROCESSABLE_ENTITY, vec!["message".to_owned()]), "{}", answer.text);
    }
    assert!(stage.is_empty().await);
}

#[tokio::test]
async fn a_body_of_very_many_fields_is_refused_at_once_in_any_encoding() {
    let stage = Stage::new();
    let names: Vec<String> = (0..100_000).map(|n| format!("f{n}")).collect();
    let fields: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
    let object: Value = names.iter().map(|name| (name.clone(), Value::from(1))).collect::<serde_json::Map<_, _>>().into();
    for request in [form(RUNS, &fields), json_body(RUNS, &object), multipart(RUNS, &fields[..1000], &[])] {
        let before = std::time::Instant::now();
        let answer = stage.ask(request).await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", answer.text);
        assert!(answer.text.contains("more than 256 parts"), "{}", answer.text);
        // Compared with each other it would be minutes.
        assert!(before.elapsed() < std::time::Duration::from_secs(5), "{:?}", before.elapsed());
    }
}

/// What makes a server build millions of values before it looks whether it wants them.
#[tokio::test]
async fn millions_of_small_values_are_refused_as_too_large_in_any_encoding_and_after_the_options() {
    let stage = Stage::new();
    let ones = format!("[{}1]", "1,".repeat(2_000_000));
    let object = format!("{{\"a\": {ones}}}");
    let raw = |body: String| Request::post(RUNS).header("content-type", "application/json").body(Body::from(body)).unwrap();
    for (field, limit) in [("metadata", "The metadata may have 65536 bytes"), ("output_schema", "The output schema may have 98304 bytes")] {
        let fields = [("message", "x"), (field, object.as_str())];
        let text = json!({ "message": "x", field: object });
        for request in [
            raw(format!("{{\"message\": \"x\", \"{field}\": {object}}}")),
            json_body(RUNS, &text),
            form(RUNS, &fields),
            multipart(RUNS, &fields, &[]),
        ] {
            let answer = stage.ask(request).await;
            assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE, "{}", answer.text);
            assert!(answer.detail().starts_with(limit), "{}", answer.text);
        }
    }
    for (fields, status) in [
        (format!("\"message\": \"x\", \"metadata\": {object}, \"other\": 1"), 400),
        (format!("\"message\": \"x\", \"metadata\": {ones}"), 400),
        (format!("\"message\": \"x\", \"other\": {ones}"), 400),
        (format!("\"message\": \"x\", \"stream\": {ones}"), 422),
        (format!("\"message\": {ones}"), 422),
        (format!("\"message\": \"x\", \"images\": {ones}"), 422),
        (format!("\"message\": \"x\", \"images\": [{{\"id\": {ones}}}]"), 422),
        (format!("\"message\": \"x\", \"input_files\": [{}{{}}]", "{\"content\":\"\"},".repeat(1_000_000)), 422),
    ] {
        let answer = stage.ask(raw(format!("{{{fields}}}"))).await;
        assert_eq!(answer.status.as_u16(), status, "{:.80}: {}", fields, answer.text);
    }
    let resume = Request::post(format!("{RUNS}/01890a5d-ac96-774b-bcce-b302099a8057/resume")).header("content-type", "application/json");
    let answer = stage.ask(resume.body(Body::from(format!("{{\"session_id\": {ones}}}"))).unwrap()).await;
    assert_eq!((answer.status, answer.detail().as_str()), (StatusCode::PAYLOAD_TOO_LARGE, "The request is larger than 65536 bytes"));
    assert!(stage.is_empty().await);
}

#[tokio::test]
async fn a_file_in_json_may_be_as_large_as_all_files_together() {
    let stage = Stage::new();
    // 4 MiB in base64.
    let content = format!("{}AA==", "AAAA".repeat(4 * 1024 * 1024 / 3));
    let body = json!({ "message": "x", "stream": false, "background": true, "input_files": [{ "content": content }] });
    let answer = stage.ask(json_body(RUNS, &body)).await;
    assert_eq!(answer.status, StatusCode::ACCEPTED, "{}", answer.text);
    let run = answer.json()["run_id"].as_str().unwrap().parse().unwrap();
    let attachments = adapters::Driver::attachments(&*stage.memory, run).await.unwrap();
    assert_eq!(attachments[0].body.len(), 4 * 1024 * 1024);
}

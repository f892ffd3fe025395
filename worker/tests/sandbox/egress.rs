//! What an isolated sandbox reaches, and what of that is told.

mod broken;
mod kit;
mod large;
mod outlives;
mod wall;

use std::io::Write;

use worker::sandbox::{Body, Door};

use super::rig::out_text;
use super::upstream::{Upstream, chunk, head};
use kit::{KEY, doors, isolated, rig};

#[tokio::test]
async fn a_request_goes_out_with_the_key_and_is_recorded_before_its_answer_ends() {
    let upstream = Upstream::start(|_, stream| {
        head(stream);
        chunk(stream, "data: {\"message\":{\"usage\":{\"input_tokens\":25,\"output_tokens\":1}}}\n\n");
        chunk(stream, "data: {\"usage\":{\"output_tokens\":15}}\n\n");
        let _ = stream.write_all(b"0\r\n\r\n");
    });
    let rig = rig(&upstream);
    let text = r#"printf hello | ask POST '/anthropic/v1/messages?beta=true' 'x-api-key: placeholder\r\nauthorization: Bearer placeholder\r\ncookie: a=b\r\nanthropic-version: 1\r\n'; echo $?"#;
    let records = rig.run(&isolated(text)).await;
    let out = out_text(&records);
    assert!(out.starts_with("HTTP/1.1 200 OK\r\n") && out.contains("\"output_tokens\":15}") && out.ends_with("0\r\n\r\n\n0\n"), "{out}");

    let asked = &upstream.asked()[0];
    assert_eq!((asked.line.as_str(), asked.body_bytes), ("POST /v1/messages?beta=true", 5));
    assert_eq!(
        (asked.header("x-api-key"), asked.header("anthropic-version"), asked.header("accept-encoding")),
        (Some(KEY), Some("1"), Some("identity"))
    );
    assert_eq!(asked.header("host"), upstream.url.strip_prefix("http://"));
    assert!(asked.header("authorization").is_none() && asked.header("cookie").is_none(), "{asked:?}");

    let doors = doors(&records);
    let body = "data: {\"message\":{\"usage\":{\"input_tokens\":25,\"output_tokens\":1}}}\n\ndata: {\"usage\":{\"output_tokens\":15}}\n\n";
    let expected = Door {
        upstream: "anthropic".into(),
        method: "POST".into(),
        path: "/v1/messages".into(),
        status: Some(200),
        request_bytes: 5,
        response_bytes: body.len() as u64,
        ms: doors[0].ms,
        input_tokens: Some(25),
        output_tokens: Some(15),
        ..Door::default()
    };
    assert_eq!(doors, [expected]);
    let place = |wanted: fn(&Body) -> bool| records.iter().position(|record| wanted(&record.body)).unwrap();
    let end = place(|body| matches!(body, Body::Out { bytes, .. } if bytes == b"0\r\n"));
    assert!(place(|body| matches!(body, Body::Started)) < place(|body| matches!(body, Body::Door(_))));
    assert!(place(|body| matches!(body, Body::Door(_))) < end, "{records:?}");
}

//! What an isolated sandbox reaches, and what of that is told.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;

use worker::sandbox::{Body, Network, Record};
use worker::sandbox::{Door, SandboxSpec};

use super::rig::{Outcome, Rig, out_text, runner, script};
use super::upstream::{Upstream, chunk, head, whole};

const KEY: &str = "the-real-key-d41d8cd98f00b204";

/// Shell functions of a plain client. `ask METHOD PATH [HEADERS]` with the body on standard input, of a known length.
const CLIENT: &str = r#"
    ask() { exec 3<>/dev/tcp/127.0.0.1/8787; body=$(cat); printf '%s %s HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: %s\r\n%b\r\n%s' \
        "$1" "$2" ${#body} "${3-}" "$body" >&3; cat <&3; status=$?; exec 3<&-; echo; return $status; }
"#;

/// A rig whose egress has the key and this upstream, and a script for it.
pub(crate) fn rig(upstream: &Upstream, more: &str) -> Rig {
    rig_with(&[("ANTHROPIC_API_KEY", KEY), ("SANDLOG_UPSTREAM_ANTHROPIC", &upstream.url)], more)
}

fn rig_with(variables: &[(&str, &str)], more: &str) -> Rig {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("egress");
    let mut text = "#!/bin/sh\n".to_owned();
    for (name, value) in variables {
        text.push_str(&format!("export {name}='{value}'\n"));
    }
    text.push_str(&format!("{more}\nexec {} \"$@\"\n", runner().with_file_name("sandlog-egress").display()));
    fs::write(&program, text).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    Rig::in_folder(folder, "data", &program)
}

pub(crate) fn isolated(text: &str) -> SandboxSpec {
    let script = script("");
    let mut spec = script.spec;
    spec.command = ["/bin/bash", "-c", &format!("{CLIENT}{text}"), &script.marker].map(String::from).to_vec();
    spec.network = Network::Isolated { upstreams: vec!["anthropic".into()] };
    spec
}

fn doors(records: &[Record]) -> Vec<Door> {
    let door = |record: &Record| if let Body::Door(door) = &record.body { Some((**door).clone()) } else { None };
    records.iter().filter_map(door).collect()
}

#[tokio::test]
async fn a_request_goes_out_with_the_key_and_is_recorded_before_its_answer_ends() {
    let upstream = Upstream::start(|_, stream| {
        head(stream);
        chunk(stream, "data: {\"message\":{\"usage\":{\"input_tokens\":25,\"output_tokens\":1}}}\n\n");
        chunk(stream, "data: {\"usage\":{\"output_tokens\":15}}\n\n");
        let _ = stream.write_all(b"0\r\n\r\n");
    });
    let rig = rig(&upstream, "");
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

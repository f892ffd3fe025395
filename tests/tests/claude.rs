//! The real Claude Code CLI in real sandboxes, on a stand-in for its model.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use e2e::deployment::Folder;
use e2e::http::{ENDED, Submit, body, text};
use e2e::instance::{command, finish};
use e2e::standin::Standin;
use e2e::{Deployment, Http, Shape, binaries, traces, unique};
use reqwest::StatusCode;
use serde_json::Value;

const KEY: &str = "sk-of-these-tests-7b1f0c9e";

async fn deployment(shape: Shape, standin: &Standin, key: &str) -> Deployment {
    deployment_with(shape, standin, key, &binaries::tools()).await
}

async fn deployment_with(shape: Shape, standin: &Standin, key: &str, tools: &Path) -> Deployment {
    let tools = tools.display().to_string();
    let agents = binaries::root().join("tests/coders.toml").display().to_string();
    let more = [
        ("SANDLOG_AGENTS", agents.as_str()),
        ("SANDLOG_TOOLS", &tools),
        ("SANDLOG_UPSTREAM_ANTHROPIC", &standin.url),
        ("ANTHROPIC_API_KEY", key),
        // Each takes a processor for a second.
        ("SANDLOG_WORKERS", "4"),
        ("SANDLOG_WAIT_SECONDS", "80"),
    ];
    Deployment::with(shape, &more).await
}

fn ask(directive: &str) -> Submit {
    Submit::message(format!("model: {directive}")).agent("coder")
}

fn events(frames: &[Value]) -> Vec<&str> {
    let mut events: Vec<&str> = frames.iter().filter_map(|frame| frame["event"].as_str()).collect();
    // How many there are of text is for the model.
    events.dedup_by(|one, other| one == other && *one == "RunContent");
    events
}

/// How often the model was asked with this directive.
fn times(standin: &Standin, directive: &str) -> usize {
    standin.asked().iter().filter(|asked| asked.path.starts_with("/v1/messages") && asked.body["messages"].to_string().contains(directive)).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_client_sees_of_turns() {
    let standin = Standin::start(KEY).await;
    let deployment = deployment(Shape::Embedded, &standin, KEY).await;
    let http = deployment.http().of("coder");
    e2e::cases!(
        http,
        a_file_and_a_conversation_go_on_in_a_new_sandbox,
        words_thoughts_and_calls_are_frames,
        images_and_documents_go_in_and_other_files_are_named,
        an_answer_fits_its_schema,
        what_the_model_refuses_is_the_runs_error,
        a_cut_answer_is_no_success,
        nothing_is_left_running_to_wait_for,
        a_denied_permission_is_seen,
        a_turn_has_no_more_calls_than_it_may,
        a_cancel_in_mid_answer_leaves_the_conversation_as_it_was,
        a_cancel_in_mid_tool_ends_the_tool,
    );
    deployment.stop().await;
}

async fn a_file_and_a_conversation_go_on_in_a_new_sandbox(http: Http) {
    let session = unique("s");
    let first = http.stream(ask("write /workspace/kept.txt of the first turn").field("session_id", &session), None).await.whole(0);
    assert_eq!(events(&first.0), ["RunStarted", "ToolCallStarted", "ToolCallCompleted", "RunContent", "RunCompleted"]);
    assert_eq!((first.0[0]["model"].as_str(), &first.0[1]["tool"]["tool_name"]), (Some("claude-sonnet-4-6"), &"Write".into()));
    let second = http.foreground(ask("recall cat kept.txt").field("session_id", &session)).await;
    assert_eq!(second["content"], "before: write /workspace/kept.txt of the first turn | of the first turn", "{second}");
    let third = http.foreground(ask("recall").field("session_id", &session)).await;
    assert_eq!(third["content"], "before: write /workspace/kept.txt of the first turn; recall cat kept.txt", "{third}");
    // Of this turn alone, not of the conversation.
    assert_eq!((&third["metrics"]["input_tokens"], &third["metrics"]["output_tokens"]), (&100.into(), &12.into()), "{third}");
    assert!(third["metrics"]["cost"].as_f64().is_some_and(|cost| cost > 0.0) && third["metrics"]["duration"].as_f64().is_some_and(|time| time > 0.0));
}

async fn words_thoughts_and_calls_are_frames(http: Http) {
    let said = http.stream(ask("think one two three"), None).await.whole(0);
    assert_eq!((said.text().as_str(), said.last_event().as_str()), ("one two three", "RunCompleted"));
    let thought: String = said.0.iter().filter_map(|frame| frame["reasoning_content"].as_str()).collect();
    assert_eq!(thought, "let me see");
    let called = http.stream(ask("run echo out; echo err >&2; exit 3"), None).await.whole(0);
    let completed = called.0.iter().find(|frame| frame["event"] == "ToolCallCompleted").expect("a call");
    assert_eq!(
        (&completed["tool"]["tool_call_error"], completed["tool"]["tool_args"]["command"].as_str()),
        (&true.into(), Some("echo out; echo err >&2; exit 3"))
    );
    let result = text(&completed["tool"], "result");
    assert!(["Exit code 3", "out", "err"].iter().all(|part| result.contains(part)), "{result}");
    let run = body(http.run(&called.run_id(), 0).await, StatusCode::OK).await;
    assert_eq!(run["tools"], serde_json::json!([completed["tool"]]), "{run}");
}

async fn images_and_documents_go_in_and_other_files_are_named(http: Http) {
    // One pixel.
    let png = [
        0x89, b'P', b'N', b'G', 13, 10, 26, 10, 0, 0, 0, 13, b'I', b'H', b'D', b'R', 0, 0, 0, 1, 0, 0, 0, 1, 8, 6, 0, 0, 0, 0x1f, 0x15, 0xc4, 0x89,
        0, 0, 0, 13, b'I', b'D', b'A', b'T', 0x78, 0xda, 0x63, 0x64, 0xf8, 0xff, 0xbf, 0x1e, 0, 5, 0x84, 2, 0x7f, 0xc2, 0xa8, 0x96, 0x4e, 0, 0, 0, 0,
        b'I', b'E', b'N', b'D', 0xae, 0x42, 0x60, 0x82,
    ];
    let pdf = b"%PDF-1.1\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj 2 0 obj<</Type/Pages/Kids[]/Count 0>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n";
    let sent = ask("saw").file("dot.png", "image/png", &png).file("a.pdf", "application/pdf", pdf).file("data.csv", "text/csv", b"a,b\n");
    let run = http.foreground(sent).await;
    let saw = text(&run, "content");
    assert!(saw.contains("image/png") && saw.contains("application/pdf"), "{run}");
    let read = http.foreground(ask("run cat $SANDLOG_FILES/data.csv").file("data.csv", "text/csv", b"a,b\n")).await;
    assert_eq!(read["content"], "the tool said: a,b", "{read}");
}

async fn an_answer_fits_its_schema(http: Http) {
    let schema = r#"{"type":"object","properties":{"n":{"type":"number"}},"required":["n"]}"#;
    let run = http.foreground(ask(r#"call StructuredOutput {"n":7}"#).field("output_schema", schema)).await;
    assert_eq!(
        (run["status"].as_str(), run["content"].as_str(), run["content_type"].as_str()),
        (Some("COMPLETED"), Some(r#"{"n":7}"#), Some("json")),
        "{run}"
    );
    let run = http.foreground(ask("say no JSON").field("output_schema", schema)).await;
    assert_eq!((run["status"].as_str(), run["error_type"].as_str()), (Some("ERROR"), Some("output_schema")), "{run}");
}

async fn what_the_model_refuses_is_the_runs_error(http: Http) {
    let run = http.foreground(ask("refuse 400")).await;
    assert_eq!((run["status"].as_str(), run["error_type"].as_str()), (Some("ERROR"), Some("model_api")), "{run}");
    assert!(text(&run, "error").contains("400"), "{run}");
    let run = http.foreground(ask("flaky 529 1")).await;
    assert_eq!(run["content"], "after all", "{run}");
}

async fn a_cut_answer_is_no_success(http: Http) {
    let run = http.foreground(ask("cut")).await;
    assert_eq!((run["status"].as_str(), run["error_type"].as_str()), (Some("ERROR"), Some("model_api")), "{run}");
    assert!(text(&run, "content").starts_with("half an ans"), "{run}");
}

async fn nothing_is_left_running_to_wait_for(http: Http) {
    let left = r#"call Bash {"command":"tail -f /dev/null","description":"a server","run_in_background":true}"#;
    let run = http.foreground(ask(left)).await;
    assert_eq!((run["status"].as_str(), &run["tools"][0]["tool_call_error"]), (Some("COMPLETED"), &true.into()), "{run}");
    let run = http.foreground(ask("run (setsid tail -f /dev/null >/dev/null 2>&1 &); echo started")).await;
    assert_eq!(run["content"], "the tool said: started", "{run}");
}

async fn a_denied_permission_is_seen(http: Http) {
    let http = http.of("careful");
    let seen = http.stream(ask("run rm -rf /workspace/x").agent("careful"), None).await.whole(0);
    let completed = seen.0.iter().find(|frame| frame["event"] == "ToolCallCompleted").expect("a call");
    assert_eq!(completed["tool"]["tool_call_error"], true, "{completed}");
    assert_eq!(seen.last_event(), "RunCompleted");
}

async fn a_turn_has_no_more_calls_than_it_may(http: Http) {
    let http = http.of("brief");
    let run = http.foreground(ask("run echo once").agent("brief")).await;
    assert_eq!((run["status"].as_str(), run["error_type"].as_str()), (Some("ERROR"), Some("max_turns")), "{run}");
}

async fn a_cancel_in_mid_answer_leaves_the_conversation_as_it_was(http: Http) {
    let session = unique("s");
    http.foreground(ask("say first").field("session_id", &session)).await;
    let head = http.stream(ask("slow 600 100").field("session_id", &session), Some(4)).await;
    body(http.cancel(&head.run_id(), 0).await, StatusCode::OK).await;
    let tail = http.resume(&head.run_id(), Some(head.last_index()), 0).await.whole(4);
    assert_eq!(tail.last_event(), "RunCancelled");
    let run = http.foreground(ask("recall").field("session_id", &session)).await;
    assert_eq!(run["content"], "before: say first", "{run}");
}

async fn a_cancel_in_mid_tool_ends_the_tool(http: Http) {
    let session = unique("s");
    let head = http.stream(ask("run echo here > left.txt; tail -f /dev/null; echo late > late.txt").field("session_id", &session), Some(2)).await;
    assert_eq!(events(&head.0), ["RunStarted", "ToolCallStarted"]);
    body(http.cancel(&head.run_id(), 0).await, StatusCode::OK).await;
    let tail = http.resume(&head.run_id(), Some(1), 0).await.whole(2);
    assert_eq!(tail.last_event(), "RunCancelled");
    // It began nothing that is kept: the conversation starts here.
    let run = http.foreground(ask("recall ls").field("session_id", &session)).await;
    assert_eq!(run["content"], "before:  | (Bash completed with no output)", "{run}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_killed_in_mid_answer_costs_no_word_and_no_second_question() {
    let standin = Standin::start(KEY).await;
    let mut deployment = deployment(Shape::Apart { apis: 1, workers: 1 }, &standin, KEY).await;
    let http = deployment.http().of("coder");
    let head = http.stream(ask("slow 60 100"), Some(5)).await;
    deployment.workers.remove(0).kill().await;
    deployment.add_worker().await;
    let run = http.wait(&head.run_id(), &ENDED).await;
    let expected: String = (1..=60).map(|n| format!("word{n} ")).collect();
    assert_eq!((run["content"].as_str(), &run["attempt"]), (Some(expected.as_str()), &1.into()), "{run}");
    let whole = http.resume(&head.run_id(), None, 0).await.whole(0);
    assert_eq!((whole.text(), &whole.0[..5]), (expected, &head.0[..]));
    assert_eq!(whole.0.iter().filter(|frame| frame["event"] == "RunContent").count(), 60);
    assert_eq!(times(&standin, "slow 60 100"), 1);
    deployment.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_killed_in_mid_tool_runs_the_tool_once() {
    let standin = Standin::start(KEY).await;
    let mut deployment = deployment(Shape::Apart { apis: 1, workers: 1 }, &standin, KEY).await;
    let http = deployment.http().of("coder");
    let head = http.stream(ask("run echo once >> ran.txt; timeout 3 tail -f /dev/null; cat ran.txt"), Some(2)).await;
    deployment.workers.remove(0).kill().await;
    deployment.add_worker().await;
    let run = http.wait(&head.run_id(), &ENDED).await;
    assert_eq!((run["content"].as_str(), &run["attempt"]), (Some("the tool said: once"), &1.into()), "{run}");
    let whole = http.resume(&head.run_id(), None, 0).await.whole(0);
    assert_eq!(events(&whole.0), ["RunStarted", "ToolCallStarted", "ToolCallCompleted", "RunContent", "RunCompleted"]);
    deployment.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_key_is_in_a_sandbox_or_in_what_is_kept() {
    let standin = Standin::start(KEY).await;
    let deployment = deployment(Shape::Embedded, &standin, KEY).await;
    let http = deployment.http().of("coder");
    // What the model's tools can find of it, inside.
    let look = "env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n'; grep -rhsE 'sk-of-these' /home /workspace /run /tmp /etc; true";
    let run = http.foreground(ask(&format!("run {look}"))).await;
    let said = text(&run, "content");
    assert!(said.contains("ANTHROPIC_API_KEY=placeholder"), "{run}");
    // The pattern itself is in what was asked; the rest of the key is nowhere.
    let secret = KEY.trim_start_matches("sk-of-these");
    assert!(!run.to_string().contains(secret), "{run}");
    // And what the host has of a sandbox while it runs, and of the run's log.
    let head = http.stream(ask("slow 100 100"), Some(3)).await;
    none_of(&deployment.data().join("sandboxes"), secret);
    none_of(&deployment.data().join("checkpoints"), secret);
    http.cancel(&head.run_id(), 0).await;
    let whole = http.resume(&head.run_id(), None, 0).await;
    assert!(!format!("{:?}", whole.0).contains(secret) && !deployment.apis[0].log().contains(secret));
    assert!(standin.asked().iter().all(|asked| asked.headers.get("x-api-key").is_some_and(|key| key == KEY)));
    deployment.stop().await;
}

/// No file below holds it.
fn none_of(folder: &Path, secret: &str) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let kind = entry.file_type().expect("a kind");
        if kind.is_dir() {
            none_of(&path, secret);
        } else if kind.is_file() {
            let bytes = fs::read(&path).unwrap_or_default();
            assert!(!bytes.windows(secret.len()).any(|window| window == secret.as_bytes()), "{}", path.display());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_harness_that_does_not_end_after_its_answer_is_ended() {
    let standin = Standin::start(KEY).await;
    let tools = Folder::new();
    fs::create_dir(tools.path().join("bin")).expect("a folder");
    let result = r#"{"type":"result","subtype":"success","is_error":false,"result":"said"}"#;
    let program = tools.path().join("bin/claude");
    fs::write(&program, format!("#!/bin/sh\necho '{result}'\ntail -f /dev/null\n")).expect("a program");
    fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).expect("a mode");
    let deployment = deployment_with(Shape::Embedded, &standin, KEY, tools.path()).await;
    let run = deployment.http().of("coder").foreground(ask("say said")).await;
    assert_eq!((run["status"].as_str(), run["content"].as_str()), (Some("COMPLETED"), Some("said")), "{run}");
    deployment.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn run_says_that_the_key_is_missing_and_with_it_does_the_turn() {
    let standin = Standin::start(KEY).await;
    let folder = Folder::new();
    let mut variables = vec![
        ("SANDLOG_DATA_DIR".to_owned(), folder.path().join("data").display().to_string()),
        ("SANDLOG_AGENTS".into(), binaries::root().join("infra/agents.toml").display().to_string()),
        ("SANDLOG_TOOLS".into(), binaries::tools().display().to_string()),
        ("SANDLOG_UPSTREAM_ANTHROPIC".into(), standin.url.clone()),
    ];
    let args = ["run", "coder", "model: write /workspace/a.txt b"];
    let without = finish(command(&args, &variables)).await;
    assert!(!without.status.success() && without.stderr.contains("ANTHROPIC_API_KEY is not set"), "{without:?}");
    variables.push(("ANTHROPIC_API_KEY".into(), KEY.into()));
    let with = finish(command(&args, &variables)).await;
    assert!(with.status.success() && with.stdout.contains("the tool said: File created"), "{with:?}");
    assert!(!format!("{with:?}").contains(KEY));
    traces::gone(folder.path(), Duration::from_secs(60)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_not_taken_ends_the_turn_at_once() {
    let standin = Standin::start("another").await;
    let deployment = deployment(Shape::Embedded, &standin, KEY).await;
    let http = deployment.http().of("coder");
    let begun = Instant::now();
    let run = http.background(ask("say never")).await;
    let run = http.wait(&text(&run, "run_id"), &ENDED).await;
    assert_eq!((run["status"].as_str(), run["error_type"].as_str()), (Some("ERROR"), Some("auth")), "{run}");
    assert!(text(&run, "error").contains("401"), "{run}");
    // The CLI alone tries for longer, and asks again each time.
    assert!(standin.asked().len() <= 3, "{} after {:?}", standin.asked().len(), begun.elapsed());
    deployment.cleared().await;
    deployment.stop().await;
}

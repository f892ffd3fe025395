//! Recorded lines of the CLI, and what must hold for any.

use proptest::prelude::*;
use runs::agents::{Agent, Harness, Limits, Network, SandboxKind};
use runs::{Frame, Input, Submitted, Tool};
use serde_json::{Value, json};

use crate::harness::{Ending, Reading, Said};
use crate::sandbox::{Body, Door, Exit, Record};

fn submitted(schema: bool) -> Submitted {
    let agent = Agent {
        id: "coder".into(),
        name: "Coder".into(),
        description: String::new(),
        harness: Harness::Claude { permission_mode: None, max_turns: None },
        model: Some("claude-sonnet-4-6".into()),
        sandbox: SandboxKind::Namespace,
        network: Network::Isolated,
        limits: Limits::default(),
        attempts: None,
    };
    let input = Input { message: "hi".into(), output_schema: schema.then(|| json!({ "type": "object" })), ..Input::default() };
    Submitted { agent, input, requeued_from: None }
}

fn fixture(name: &str) -> Vec<u8> {
    let path = format!("{}/src/harness/fixtures/claude/{name}.jsonl", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn code(code: i32) -> Exit {
    Exit { code: Some(code), ..Exit::default() }
}

/// A journal of these bytes in pieces of at most so many, as a runner cuts lines.
fn journal(out: &[u8], piece: usize, err: &str, exit: Exit) -> Vec<Record> {
    let lines = out.split_inclusive(|byte| *byte == b'\n');
    let pieces = lines.flat_map(|line| line.chunks(piece));
    let out = pieces.map(|piece| Body::Out { bytes: piece.to_vec(), end_of_line: piece.ends_with(b"\n") });
    let err = Body::Err { bytes: err.as_bytes().to_vec(), end_of_line: true };
    let bodies = [Body::Started].into_iter().chain(out).chain([err, Body::Exit(exit)]);
    bodies.enumerate().map(|(at, body)| Record { at_ms: 1000 + at as u64, body }).collect()
}

/// The frames and how it ended, read by one reader.
fn read(submitted: &Submitted, records: &[Record]) -> (Vec<Frame>, Ending) {
    let mut reading = Reading::resume(submitted, &Value::Null, None);
    let frames = records.iter().flat_map(|record| reading.read(record)).collect();
    match records.last() {
        Some(Record { at_ms, body: Body::Exit(exit) }) => (frames, reading.judge(exit, *at_ms, &submitted.agent.limits)),
        other => panic!("{other:?} is no end"),
    }
}

fn recorded(name: &str, exit: Exit) -> (Vec<Frame>, Ending) {
    read(&submitted(false), &journal(&fixture(name), usize::MAX, "", exit))
}

fn text(frames: &[Frame]) -> String {
    frames.iter().filter_map(|frame| if let Frame::RunContent { content, .. } = frame { content.as_deref() } else { None }).collect()
}

fn tools<'a>(frames: &'a [Frame]) -> Vec<(&'static str, &'a Tool)> {
    let of = |frame: &'a Frame| match frame {
        Frame::ToolCallStarted { tool } => Some(("started", tool)),
        Frame::ToolCallCompleted { tool } => Some(("completed", tool)),
        _ => None,
    };
    frames.iter().filter_map(of).collect()
}

/// An answer, or the type of the error and a word of it.
type Verdict = Result<&'static str, (&'static str, &'static str)>;

/// Each recording, the exit code of its CLI, and its one verdict.
const VERDICTS: [(&str, i32, Verdict); 32] = [
    ("plain", 0, Ok("hello")),
    ("tool_use", 0, Ok("tool said: made by a tool")),
    ("tool_failure", 0, Ok("tool said: Exit code 2\nls: cannot access '/no/such/place': No such file or directory")),
    ("resumed", 0, Ok("earlier: say hello")),
    ("resume_unknown", 1, Err(("harness_failed", "No conversation found"))),
    ("session_id_given", 0, Ok("mine")),
    ("session_id_taken", 1, Err(("harness_failed", "exit code 1"))),
    ("partial_messages", 0, Ok("one two three")),
    ("partial_tool_use", 0, Ok("tool said: made")),
    ("partial_think", 0, Ok("the answer")),
    ("partial_json", 0, Ok(r#"{"a":"x"}"#)),
    ("partial_cut", 0, Ok("half an ans")),
    ("max_turns", 1, Err(("max_turns", "maximum number of turns (1)"))),
    ("error_400", 1, Err(("model_api", "400"))),
    ("error_401", 1, Err(("auth", "401"))),
    ("error_429", 1, Err(("model_api", "429"))),
    ("error_500", 1, Err(("model_api", "500"))),
    ("error_529", 1, Err(("model_api", "529"))),
    ("flaky_529_then_answer", 0, Ok("answered after errors")),
    ("connection_refused", 1, Err(("model_api", "ECONNREFUSED"))),
    // The CLI takes it for an answer: only the model's door knows better.
    ("connection_cut", 0, Ok("half an ans")),
    ("sigint_mid_answer", 0, Err(("harness_failed", ""))),
    ("sigterm_mid_answer", 143, Err(("harness_failed", "exit code 143"))),
    ("sigkill_mid_answer", 137, Err(("harness_failed", "exit code 137"))),
    ("sigint_mid_tool", 0, Err(("harness_failed", ""))),
    ("sigterm_mid_tool", 143, Err(("harness_failed", "exit code 143"))),
    ("resumed_after_sigint", 0, Ok("earlier: slow 20")),
    ("resumed_after_sigterm", 0, Ok("earlier: slow 20")),
    ("resumed_after_sigkill", 0, Ok("earlier: slow 20")),
    ("stream_input_two_turns", 0, Ok("earlier: say first")),
    ("stream_input_interrupt", 0, Ok("earlier: slow 20")),
    ("stream_input_replay", 0, Ok("first")),
];

#[test]
fn each_recording_has_the_one_verdict() {
    for (name, exit, expected) in VERDICTS {
        match (recorded(name, code(exit)).1, expected) {
            (Ending::Judged(judged), Ok(content)) => {
                let said = Said { content: content.into(), content_type: "str", truncated: false };
                assert_eq!(judged.outcome, Ok(Some(said)), "{name}");
            }
            (Ending::Judged(judged), Err((kind, word))) => {
                let (error, error_type) = judged.outcome.expect_err(name);
                assert!(error_type == kind && error.contains(word), "{name}: {error_type}: {error}");
            }
            (Ending::Failed { error, error_type, .. }, Err((kind, word))) => {
                assert!(error_type == "auth" && kind == "auth" && error.contains(word), "{name}: {error_type}: {error}");
            }
            (other, _) => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn every_recording_is_judged_and_nothing_is_streamed_twice() {
    let names: Vec<&str> = VERDICTS.iter().map(|(name, ..)| *name).chain(["permission_denied"]).collect();
    for entry in std::fs::read_dir(format!("{}/src/harness/fixtures/claude", env!("CARGO_MANIFEST_DIR"))).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(name == "README.md" || names.contains(&name.trim_end_matches(".jsonl")), "{name} has no verdict");
    }
    assert_eq!(text(&recorded("plain", code(0)).0), "hello");
    assert_eq!(text(&recorded("partial_messages", code(0)).0), "one two three");
    assert_eq!(text(&recorded("partial_tool_use", code(0)).0), "tool said: made");
    assert_eq!(text(&recorded("sigint_mid_answer", code(0)).0), "word1 word2 word3 word4 word5 ");
    assert_eq!(text(&recorded("stream_input_interrupt", code(0)).0), "word1 word2 word3 word4 word5 earlier: slow 20");
    // Each try was shown as it came, and the last one came whole.
    assert_eq!(text(&recorded("partial_cut", code(0)).0), "half an ans".repeat(3));
    // The CLI's words for an error are the run's error, not its content.
    assert_eq!(text(&recorded("error_500", code(1)).0), "");
}

#[test]
fn words_come_as_they_are_streamed() {
    let (frames, _) = recorded("partial_messages", code(0));
    assert_eq!(frames, ["one ", "two ", "three"].map(|word| Frame::content(word.into())));
}

#[test]
fn a_tool_call_is_told_at_its_start_and_at_its_end() {
    for name in ["tool_use", "partial_tool_use"] {
        let (frames, _) = recorded(name, code(0));
        let [("started", started), ("completed", completed)] = tools(&frames)[..] else { panic!("{name}: {frames:?}") };
        assert_eq!((started.tool_name.as_str(), &started.result, started.tool_call_error), ("Bash", &None, None));
        assert!(started.tool_args["command"].as_str().unwrap().contains("made.txt"));
        assert_eq!((&completed.tool_call_id, &completed.tool_args), (&started.tool_call_id, &started.tool_args));
        assert!(completed.result.as_deref().unwrap().starts_with("made"), "{completed:?}");
        assert_eq!(completed.tool_call_error, Some(false));
    }
    let (frames, _) = recorded("tool_failure", code(0));
    assert!(
        matches!(tools(&frames)[..], [_, ("completed", tool)] if tool.tool_call_error == Some(true) && tool.result.as_ref().unwrap().contains("Exit code 2"))
    );
}

#[test]
fn a_permission_that_was_denied_is_seen_as_the_calls_error() {
    let (frames, ending) = recorded("permission_denied", code(0));
    let tools = tools(&frames);
    assert!(
        matches!(tools[..], [_, ("completed", tool)] if tool.tool_call_error == Some(true) && tool.result.as_ref().unwrap().contains("needs approval"))
    );
    assert!(matches!(ending, Ending::Judged(judged) if judged.outcome.is_ok()));
}

#[test]
fn what_a_turn_took_is_its_own_also_when_the_conversation_is_older() {
    let metrics = |name| match recorded(name, code(0)).1 {
        Ending::Judged(judged) => judged.metrics,
        other => panic!("{other:?}"),
    };
    let (plain, tool, resumed) = (metrics("plain"), metrics("tool_use"), metrics("resumed"));
    assert_eq!((plain.input_tokens, plain.output_tokens, plain.duration), (Some(100), Some(12), Some(0.131)));
    assert_eq!((tool.input_tokens, tool.output_tokens), (Some(200), Some(24)));
    assert_eq!((resumed.input_tokens, resumed.output_tokens), (Some(100), Some(12)));
    let cents = |cost: Option<f64>| (cost.unwrap() * 1e6).round();
    assert_eq!((cents(plain.cost), cents(tool.cost), cents(resumed.cost)), (480.0, 960.0, 480.0));
}

#[test]
fn a_key_that_is_not_taken_ends_the_turn_at_once() {
    let submitted = submitted(false);
    let records = journal(&fixture("error_401"), usize::MAX, "", Exit { signal: Some(9), reason: Some("killed:auth".into()), ..Exit::default() });
    let mut reading = Reading::resume(&submitted, &Value::Null, None);
    let at = records.iter().position(|record| {
        reading.read(record);
        reading.stop().is_some()
    });
    // Started, init, and the first of the tries.
    assert_eq!((at, reading.stop()), (Some(2), Some("auth")));
    let again = Reading::resume(&submitted, &reading.state(), None);
    assert_eq!(again.stop(), Some("auth"));
    let (_, ending) = read(&submitted, &records);
    assert!(matches!(&ending, Ending::Failed { error_type, error, .. } if error_type == "auth" && error.contains("401")), "{ending:?}");
    // What may pass is left to pass.
    let (_, ending) = recorded("flaky_529_then_answer", code(0));
    assert!(matches!(ending, Ending::Judged(judged) if judged.outcome.is_ok()));
}

#[test]
fn an_answer_counts_also_of_a_harness_that_has_to_be_ended_after_it() {
    let exit = |reason: &str| Exit { signal: Some(9), reason: Some(reason.into()), ..Exit::default() };
    let (_, ending) = recorded("plain", exit("killed:answered"));
    assert!(matches!(ending, Ending::Judged(judged) if judged.outcome.is_ok()));
    let (_, ending) = recorded("plain", exit("killed:shutdown"));
    assert!(matches!(ending, Ending::Lost { .. }));
    let mut reading = Reading::resume(&submitted(false), &Value::Null, None);
    let answered = |record: &Record| {
        reading.read(record);
        reading.has_answered()
    };
    // Started, init, the answer, the result.
    assert_eq!(journal(&fixture("plain"), usize::MAX, "", code(0)).iter().map(answered).collect::<Vec<_>>()[..4], [false, false, false, true]);
}

fn door(door: Door) -> Body {
    let path = if door.path.is_empty() { "/v1/messages".into() } else { door.path.clone() };
    Body::Door(Box::new(Door { upstream: "anthropic".into(), method: "POST".into(), path, ..door }))
}

/// A recording with requests before its end.
fn with_doors(name: &str, doors: Vec<Body>) -> Ending {
    let mut records = journal(&fixture(name), usize::MAX, "", code(0));
    let exit = records.pop();
    records.extend(doors.into_iter().map(|body| Record { at_ms: 2000, body }));
    records.extend(exit);
    read(&submitted(false), &records).1
}

#[test]
fn an_answer_that_was_cut_off_is_no_success_whatever_the_cli_says() {
    let cut = || door(Door { status: Some(200), cut: true, ..Door::default() });
    let whole = || door(Door { status: Some(200), ..Door::default() });
    let ending = with_doors("connection_cut", vec![whole(), cut()]);
    assert!(matches!(&ending, Ending::Judged(judged) if judged.outcome.as_ref().is_err_and(|(_, kind)| kind == "model_api")), "{ending:?}");
    let dead = Body::Door(Box::new(Door { cut: true, refused: Some("egress".into()), ..Door::default() }));
    let ending = with_doors("connection_cut", vec![whole(), dead]);
    assert!(matches!(&ending, Ending::Judged(judged) if judged.outcome.is_err()), "{ending:?}");
    // It was asked again, or it was about something else.
    let other = door(Door { path: "/v1/messages/count_tokens".into(), cut: true, ..Door::default() });
    let ending = with_doors("connection_cut", vec![cut(), whole(), other]);
    assert!(matches!(&ending, Ending::Judged(judged) if judged.outcome.is_ok()), "{ending:?}");
}

#[test]
fn the_models_door_tells_of_a_key_that_is_missing_or_not_taken() {
    for (status, refused, word) in [(503, Some("key"), "ANTHROPIC_API_KEY"), (401, None, "401"), (403, None, "403")] {
        let ending = with_doors("plain", vec![door(Door { status: Some(status), refused: refused.map(String::from), ..Door::default() })]);
        assert!(matches!(&ending, Ending::Failed { error_type, error, .. } if error_type == "auth" && error.contains(word)), "{ending:?}");
    }
    // What egress does not let through is no word on the key.
    let ending = with_doors("plain", vec![door(Door { status: Some(403), refused: Some("path".into()), ..Door::default() })]);
    assert!(matches!(ending, Ending::Judged(judged) if judged.outcome.is_ok()));
}

fn lines(lines: &[Value]) -> Vec<u8> {
    lines.iter().map(|line| format!("{line}\n")).collect::<String>().into_bytes()
}

fn answered(schema: bool, result: Value) -> Result<Option<Said>, (String, String)> {
    let mut line = json!({ "type": "result", "subtype": "success", "is_error": false, "result": "text" });
    line.as_object_mut().unwrap().extend(result.as_object().unwrap().clone());
    match read(&submitted(schema), &journal(&lines(&[line]), usize::MAX, "", code(0))).1 {
        Ending::Judged(judged) => judged.outcome,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_answer_that_has_to_fit_a_schema_does_or_is_an_error() {
    let json = answered(true, json!({ "structured_output": { "a": 1 } })).unwrap().unwrap();
    assert_eq!((json.content.as_str(), json.content_type), (r#"{"a":1}"#, "json"));
    let (_, ending) = read(&submitted(true), &journal(&fixture("partial_json"), usize::MAX, "", code(0)));
    let json = Some(Said { content: r#"{"a":"x"}"#.into(), content_type: "json", truncated: false });
    assert!(matches!(ending, Ending::Judged(judged) if judged.outcome == Ok(json)));
    assert_eq!(answered(true, json!({})).unwrap_err().1, "output_schema");
    assert_eq!(answered(true, json!({ "structured_output": null })).unwrap_err().1, "output_schema");
    assert_eq!(answered(false, json!({ "structured_output": { "a": 1 } })).unwrap().unwrap().content, "text");
    let long = answered(false, json!({ "result": "ü".repeat(1 << 18) })).unwrap().unwrap();
    assert!(long.truncated && long.content.len() <= 1 << 18);
}

#[test]
fn an_answer_that_went_on_after_it_broke_off_is_whole() {
    let says = |id: &str, text: &str| json!({ "type": "assistant", "message": { "id": id, "content": [{ "type": "text", "text": text }] } });
    let told = |text: &str| json!({ "type": "user", "isSynthetic": true, "message": { "content": [{ "type": "text", "text": text }] } });
    let calls = json!({ "type": "assistant", "message": { "id": "c", "content": [{ "type": "tool_use", "id": "t", "name": "Read", "input": {} }] } });
    let result = json!({ "type": "result", "subtype": "success", "is_error": false, "result": "three." });
    let (cut, limit) =
        (told("Your response above was cut off mid-stream. Resume directly from where it stops."), told("Output token limit hit. Resume directly."));
    let content = |out: &[&Value]| {
        let out: Vec<_> = out.iter().map(|line| (*line).clone()).chain([says("z", "three."), result.clone()]).collect();
        let Ending::Judged(judged) = read(&submitted(false), &journal(&lines(&out), usize::MAX, "", code(0))).1 else { panic!("no answer") };
        judged.outcome.unwrap().unwrap().content
    };
    assert_eq!(content(&[&says("a", "one, "), &cut, &says("b", "two"), &says("b", ", "), &limit]), "one, two, three.");
    // Other words to the model, and words before a call, are not of the answer.
    assert_eq!(content(&[&says("a", "one, "), &told("Stop hook feedback: try another answer.")]), "three.");
    assert_eq!(content(&[&says("a", "one, "), &cut, &calls]), "three.");
}

#[test]
fn thinking_is_apart_and_subagents_keep_their_words() {
    let delta = |delta: Value, parent: Value| json!({ "type": "stream_event", "parent_tool_use_id": parent, "event": { "type": "content_block_delta", "index": 0, "delta": delta } });
    let whole = |id: &str, block: Value, parent: Value| json!({ "type": "assistant", "parent_tool_use_id": parent, "message": { "id": id, "content": [block] } });
    let start = json!({ "type": "stream_event", "parent_tool_use_id": null, "event": { "type": "message_start", "message": { "id": "m" } } });
    let out = lines(&[
        start,
        delta(json!({ "type": "thinking_delta", "thinking": "hm" }), Value::Null),
        whole("m", json!({ "type": "thinking", "thinking": "hm" }), Value::Null),
        whole("m", json!({ "type": "text", "text": "not streamed" }), Value::Null),
        delta(json!({ "type": "text_delta", "text": "inner" }), json!("toolu_1")),
        whole("n", json!({ "type": "text", "text": "inner" }), json!("toolu_1")),
        whole("n", json!({ "type": "tool_use", "id": "t", "name": "Read", "input": { "x": "\0" } }), json!("toolu_1")),
        json!({ "type": "assistant", "message": { "id": "o", "content": "a plain text" } }),
        json!({ "type": "something new", "message": 7, "event": [] }),
        json!([1]),
    ]);
    let (frames, _) = read(&submitted(false), &journal(&out, usize::MAX, "", code(1)));
    let Frame::RunContent { content: None, reasoning_content: Some(thought) } = &frames[0] else { panic!("{frames:?}") };
    assert_eq!((thought.as_str(), text(&frames)), ("hm", "not streamed".into()));
    assert_eq!(tools(&frames)[0].1.tool_args, json!({ "x": "\u{2400}" }));
    assert_eq!(frames.len(), 3);
}

#[test]
fn what_is_large_is_bounded_and_says_so() {
    let long = "ü".repeat(200_000);
    let out = lines(&[
        json!({ "type": "assistant", "message": { "id": "m", "content": [{ "type": "text", "text": long }, { "type": "tool_use", "id": "t", "name": "Write", "input": { "content": long } }] } }),
        json!({ "type": "user", "message": { "content": [{ "type": "tool_result", "tool_use_id": "t", "content": [{ "type": "text", "text": long }, { "type": "image" }] }] } }),
    ]);
    let (frames, _) = read(&submitted(false), &journal(&out, 1000, "", code(1)));
    assert_eq!(text(&frames), long);
    assert!(frames.iter().all(|frame| frame.bytes() <= 129 * 1024), "{:?}", frames.iter().map(Frame::bytes).collect::<Vec<_>>());
    for (_, tool) in tools(&frames) {
        assert!(tool.tool_args.to_string().contains("more bytes are left out"), "{tool:?}");
    }
    assert!(tools(&frames)[1].1.result.as_ref().unwrap().ends_with("more bytes are left out]"));
}

#[test]
fn a_line_without_end_is_left_out_and_what_follows_is_read() {
    let submitted = submitted(false);
    let mut out = vec![b'x'; 13 * 1024 * 1024];
    out.push(b'\n');
    out.extend(fixture("plain"));
    let records = journal(&out, 256 * 1024, "", code(0));
    let mut reading = Reading::resume(&submitted, &Value::Null, None);
    let (mut frames, mut waiting, mut longest) = (Vec::new(), 0, 0);
    for record in &records {
        frames.extend(reading.read(record));
        waiting = if reading.is_whole() { 0 } else { waiting + 256 * 1024 };
        longest = longest.max(waiting);
    }
    assert!(longest < 14 * 1024 * 1024, "uncommitted journal is at most 16 MiB, and {longest} wait for the line's end");
    assert!(text(&frames).contains("is left out") && text(&frames).ends_with("hello"), "{}", text(&frames));
}

#[test]
fn standard_error_tells_why_where_there_is_no_result() {
    let (_, ending) = read(&submitted(false), &journal(b"", usize::MAX, "error: unknown option '--verbos'\n", code(1)));
    let error = "the harness ended without a result, with exit code 1: error: unknown option '--verbos'";
    assert!(matches!(ending, Ending::Judged(judged) if judged.outcome == Err((error.into(), "harness_failed".into()))));
}

/// As workers read that die and go on: from the last commit, which may have been at any record after which the reading was whole.
fn read_with_deaths(submitted: &Submitted, records: &[Record], commits: &[usize], deaths: &[usize]) -> (Vec<Frame>, Ending) {
    let (mut committed, mut from, mut state) = (Vec::new(), 0, Value::Null);
    for death in deaths.iter().copied().chain([records.len()]) {
        let mut reading = Reading::resume(submitted, &serde_json::from_str(&state.to_string()).unwrap(), None);
        let (mut batch, mut whole) = (Vec::new(), from);
        for (at, record) in records.iter().enumerate().take(death.max(from)).skip(from) {
            batch.extend(reading.read(record));
            if let Body::Exit(exit) = &record.body {
                committed.append(&mut batch);
                return (committed, reading.judge(exit, record.at_ms, &submitted.agent.limits));
            }
            if reading.is_whole() {
                whole = at + 1;
            }
            if commits.contains(&at) {
                committed.append(&mut batch);
                (from, state) = (whole, reading.state());
            }
        }
    }
    panic!("no end");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn frames_are_the_same_whoever_reads_and_wherever_a_reader_dies(
        which in any::<prop::sample::Index>(), piece in prop_oneof![Just(usize::MAX), 50usize..2000],
        commits in prop::collection::vec(any::<prop::sample::Index>(), 0..12), deaths in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
        err in any::<prop::sample::Index>(),
    ) {
        let (name, exit, _) = VERDICTS[which.index(VERDICTS.len())];
        let (submitted, mut records) = (submitted(false), journal(&fixture(name), piece, "", code(exit)));
        // Standard error comes at any time, also amid a line.
        let said = Record { at_ms: 1, body: Body::Err { bytes: b"a warning\n".to_vec(), end_of_line: true } };
        records.insert(err.index(records.len()), said);
        let at = |of: &[prop::sample::Index]| of.iter().map(|index| index.index(records.len())).collect::<Vec<_>>();
        let mut deaths = at(&deaths);
        deaths.sort_unstable();
        let (frames, ending) = read(&submitted, &records);
        let (got, judged) = read_with_deaths(&submitted, &records, &at(&commits), &deaths);
        prop_assert_eq!(got, frames, "{}", name);
        prop_assert_eq!(judged, ending);
    }

    #[test]
    fn no_output_makes_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), kind in "assistant|user|result|stream_event|system", inner in "\\PC{0,20}") {
        let mut out = bytes;
        out.extend(lines(&[json!({ "type": kind, "message": { "content": [inner, { "type": inner }] }, "event": { "type": inner, "delta": inner } })]));
        read(&submitted(true), &journal(&out, 7, "", code(0)));
    }
}

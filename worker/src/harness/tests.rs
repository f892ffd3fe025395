//! What is made of a journal does not depend on who reads it, or how often reading begins again.

use proptest::prelude::*;
use runs::agents::{Agent, Harness, Limits, Network, SandboxKind};
use runs::{FailureClass, Frame, Input, Submitted};
use serde_json::Value;

use super::{Ending, Reading};
use crate::sandbox::{Body, Exit, Record};

fn submitted(output: u64) -> Submitted {
    let agent = Agent {
        id: "echo".into(),
        name: "Echo".into(),
        description: String::new(),
        harness: Harness::Command { command: vec!["true".into()] },
        model: None,
        sandbox: SandboxKind::Namespace,
        network: Network::None,
        limits: Limits { output, ..Limits::default() },
        attempts: None,
    };
    Submitted { agent, input: Input::default(), requeued_from: None }
}

/// The journal of a command that printed `out`, in pieces as a runner cuts them.
fn journal(out: &[Vec<u8>], err: &str, exit: Exit) -> Vec<Record> {
    let lines = out.iter().map(|piece| Body::Out { bytes: piece.clone(), end_of_line: piece.ends_with(b"\n") });
    let said = Body::Err { bytes: err.as_bytes().to_vec(), end_of_line: true };
    let bodies = [Body::Started].into_iter().chain(lines).chain([said, Body::Exit(exit)]);
    bodies.enumerate().map(|(at, body)| Record { at_ms: 1000 + at as u64, body }).collect()
}

fn text(frames: &[Frame]) -> String {
    frames.iter().map(|frame| if let Frame::RunContent { content: Some(text), .. } = frame { text.as_str() } else { "" }).collect()
}

fn judged(records: &[Record], output: u64) -> Ending {
    let submitted = submitted(output);
    let mut reading = Reading::resume(&submitted, &Value::Null, None);
    records.iter().for_each(|record| drop(reading.read(record)));
    match records.last() {
        Some(Record { at_ms, body: Body::Exit(exit) }) => reading.judge(exit, *at_ms, &submitted.agent.limits),
        other => panic!("{other:?} is no end"),
    }
}

fn code(code: i32) -> Exit {
    Exit { code: Some(code), ..Exit::default() }
}

proptest! {
    #[test]
    fn reading_that_begins_again_anywhere_gives_the_same_frames(
        out in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..12), 0..12), limit in 1u64..200, cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
    ) {
        let (agent, records) = (submitted(limit), journal(&out, "", code(0)));
        let mut whole = Reading::resume(&agent, &Value::Null, None);
        let expected: Vec<Frame> = records.iter().flat_map(|record| whole.read(record)).collect();
        let cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(records.len())).collect();
        let mut reading = Reading::resume(&agent, &Value::Null, None);
        let mut got = Vec::new();
        for (at, record) in records.iter().enumerate() {
            if cuts.contains(&at) {
                // As the log gives it back.
                reading = Reading::resume(&agent, &serde_json::from_str(&reading.state().to_string()).unwrap(), None);
            }
            got.extend(reading.read(record));
        }
        prop_assert_eq!(&got, &expected);
        prop_assert_eq!(reading.state(), whole.state());
        prop_assert!(got.iter().map(Frame::bytes).sum::<u64>() <= limit);
    }

    #[test]
    fn a_text_cut_in_pieces_anywhere_comes_back_whole(said in "\\PC{0,40}", cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..4)) {
        let bytes = said.as_bytes();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let pieces: Vec<Vec<u8>> = cuts.windows(2).map(|ends| bytes[ends[0]..ends[1]].to_vec()).collect();
        let mut reading = Reading::resume(&submitted(1 << 20), &Value::Null, None);
        let frames: Vec<Frame> = journal(&pieces, "", code(0)).iter().flat_map(|record| reading.read(record)).collect();
        prop_assert_eq!(text(&frames), said);
    }
}

#[test]
fn a_command_that_ends_with_zero_has_done_it_and_its_time_is_told() {
    let Ending::Judged(judged) = judged(&journal(&[b"hi\n".to_vec()], "warning", code(0)), 100) else { panic!("not judged") };
    assert_eq!((judged.outcome, judged.metrics.duration), (Ok(None), Some(0.003)));
}

#[test]
fn a_command_that_fails_says_how_and_why_by_the_end_of_its_standard_error() {
    let failed = |exit, err: &str| match judged(&journal(&[], err, exit), 100) {
        Ending::Judged(judged) => judged.outcome.unwrap_err().0,
        other => panic!("{other:?}"),
    };
    assert_eq!(failed(code(3), "it broke\n"), "the command ended with exit code 3: it broke");
    assert_eq!(failed(code(3), ""), "the command ended with exit code 3");
    assert_eq!(failed(Exit { signal: Some(11), ..Exit::default() }, " "), "the command ended with signal 11");
    let long = failed(code(1), &format!("{}end", "ü".repeat(9000)));
    assert!(long.ends_with("end") && long.len() <= 4096 + 50);
}

#[test]
fn every_other_end_has_a_type_of_its_own() {
    let failed = |exit: Exit, output| match judged(&journal(&[b"said\n".to_vec()], "", exit), output) {
        Ending::Failed { error_type, .. } => error_type,
        other => panic!("{other:?}"),
    };
    let because = |reason: &str| Exit { signal: Some(9), reason: Some(reason.into()), ..Exit::default() };
    assert_eq!(failed(because("time_limit"), 100), "time_limit");
    assert_eq!(failed(because("disk_limit"), 100), "disk_limit");
    assert_eq!(failed(Exit { signal: Some(9), oom: true, ..Exit::default() }, 100), "memory_limit");
    assert_eq!(failed(code(0), 3), "output_limit");
    for lost in ["dead_man", "killed:shutdown", "killed:folder_gone"] {
        let ending = judged(&journal(&[], "", because(lost)), 100);
        assert!(matches!(ending, Ending::Lost { class: FailureClass::SandboxLost, .. }), "{ending:?}");
    }
}

#[test]
fn what_never_started_is_told_from_what_could_not_be_set_up() {
    let records = |body| [Record { at_ms: 1, body }, Record { at_ms: 2, body: Body::Exit(code(1)) }];
    let not_started = judged(&records(Body::StartFailed { message: "/no/such/program: No such file or directory".into() }), 100);
    assert!(matches!(not_started, Ending::Failed { error_type, error, .. } if error_type == "not_started" && error.contains("/no/such/program")));
    let not_set_up = judged(&records(Body::SetupFailed { message: "no namespace".into() }), 100);
    assert_eq!(not_set_up, Ending::Lost { class: FailureClass::Setup, error: "no namespace".into() });
}

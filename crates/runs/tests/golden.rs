//! What is stored is read for ever: one file for each kind and version, which never changes.

use std::collections::BTreeSet;
use std::path::PathBuf;

use proptest::prelude::*;
use runs::{Event, EventError, Metrics, Output, Recorded, Run};
use serde_json::{Value, json};

use crate::arbitrary;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// The kind and what stands in the column `data`.
fn golden(kind: &str) -> (String, Value) {
    let text = std::fs::read_to_string(folder().join(format!("{kind}.v1.json"))).expect("every kind has a golden file");
    let Value::Object(mut envelope) = serde_json::from_str(&text).expect("JSON") else { panic!("{kind}: an object") };
    assert_eq!(
        envelope.keys().collect::<BTreeSet<_>>(),
        ["data", "type", "v"].iter().map(|key| (*key).to_owned()).collect::<BTreeSet<_>>().iter().collect()
    );
    let mut data = envelope.remove("data").expect("data");
    data["v"] = envelope.remove("v").expect("a version");
    (envelope["type"].as_str().expect("a type").to_owned(), data)
}

fn event(kind: &str) -> Event {
    let (kind, data) = golden(kind);
    Event::from_stored(&kind, data).expect("a golden file is read")
}

#[test]
fn every_kind_has_a_golden_file_and_every_golden_file_a_kind() {
    let files = std::fs::read_dir(folder()).expect("a folder");
    let names: BTreeSet<_> = files.map(|file| file.expect("a file").file_name().to_string_lossy().into_owned()).collect();
    assert_eq!(names, Event::KINDS.iter().map(|kind| format!("{kind}.v1.json")).collect());
}

#[test]
fn golden_events_are_read_and_written_as_they_were() {
    for kind in Event::KINDS {
        let (named, data) = golden(kind);
        let event = event(kind);
        assert_eq!((named.as_str(), event.kind()), (kind, kind));
        assert_eq!(event.to_stored(), data, "{kind}");
    }
}

#[test]
fn golden_events_fold() {
    let started = ["run.submitted", "run.claimed", "sandbox.requested", "sandbox.started", "output"];
    let after = |more: &[&'static str]| [&started[..], more].concat();
    let logs = [
        after(&["handed_over", "run.claimed", "attempt.failed", "sandbox.requested", "sandbox.started", "checkpoint.saved", "run.completed"]),
        after(&["checkpoint.saved", "run.failed"]),
        after(&["cancel.requested", "run.cancelled"]),
    ];
    let used: BTreeSet<_> = logs.iter().flatten().copied().collect();
    assert_eq!(used, BTreeSet::from(Event::KINDS), "a log for each kind");
    for log in logs {
        let mut recorded: Vec<Recorded> = Vec::new();
        for (kind, seq) in log.iter().zip(0..) {
            let first_index = recorded.last().map_or(0, Recorded::next_index);
            recorded.push(Recorded { seq, first_index, at: 1_750_000_000_000, event: event(kind) });
        }
        let run = Run::fold(&recorded).expect("legal").expect("there");
        assert!(run.phase.has_ended());
    }
}

#[test]
fn a_newer_release_is_told_from_a_broken_row() {
    let unknown = Event::from_stored("run.paused", json!({"v": 1}));
    assert!(matches!(unknown, Err(EventError::Unknown { ref kind, v: 1 }) if kind == "run.paused"), "{unknown:?}");
    let (kind, mut data) = golden("output");
    data["v"] = 2.into();
    let newer = Event::from_stored(&kind, data.clone());
    assert!(matches!(newer, Err(EventError::Unknown { v: 2, .. })), "{newer:?}");
    data["v"] = Value::Null;
    assert!(Event::from_stored(&kind, data.clone()).is_err(), "no version is none that is known");
    (data["v"], data["journal"]) = (1.into(), "far".into());
    let broken = Event::from_stored(&kind, data);
    assert!(matches!(broken, Err(EventError::Shape { ref kind, .. }) if kind == "output"), "{broken:?}");
}

#[test]
fn what_may_be_absent_is_read_as_its_default() {
    let output = Event::from_stored("output", json!({"v": 1, "frames": [], "journal": 5})).expect("read");
    assert_eq!(output, Event::Output(Output { frames: Vec::new(), journal: 5, parser: Value::Null }));
    let failed = Event::from_stored("run.failed", json!({"v": 1, "error": "e", "error_type": "t", "started": false})).expect("read");
    let bare = Event::Failed {
        error: "e".into(),
        error_type: "t".into(),
        started: false,
        content: String::new(),
        truncated: false,
        metrics: Metrics::default(),
        tools: Vec::new(),
    };
    assert_eq!(failed, bare);
}

proptest! {
    #[test]
    fn any_event_is_read_as_it_was_written(event in arbitrary::any_event()) {
        let text = event.to_stored().to_string();
        let data: Value = serde_json::from_str(&text).expect("JSON");
        prop_assert_eq!(data["v"].as_u64(), Some(1));
        prop_assert_eq!(Event::from_stored(event.kind(), data).expect("read"), event);
    }

    #[test]
    fn no_stored_text_makes_the_reader_panic(kind in prop::sample::select(&Event::KINDS[..]), event in arbitrary::any_event(), v in 0..3_u64) {
        let mut data = event.to_stored();
        data["v"] = v.into();
        // Of another kind it is an error or, where the fields fit, that kind's event.
        if let Ok(read) = Event::from_stored(kind, data) {
            prop_assert_eq!((read.kind(), v), (kind, 1));
        }
    }
}

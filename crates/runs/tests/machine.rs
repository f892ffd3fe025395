//! `docs/STATE_MACHINE.md` says what `Run::apply` does, arrow by arrow.

use std::collections::BTreeMap;

use runs::agents::{Agent, Harness, Limits, Network, SandboxKind};
use runs::{Claimed, Event, FailureClass, Input, Metrics, Output, Phase, Recorded, Requested, Run, Sandbox, Submitted};
use uuid::Uuid;

const PAGE: &str = include_str!("../../../docs/STATE_MACHINE.md");

/// By phase and event; no run yet is the phase `(none)`.
type Arrows = BTreeMap<(String, String), String>;

fn events() -> Vec<Event> {
    let agent = Agent {
        id: "a".into(),
        name: "a".into(),
        description: String::new(),
        harness: Harness::Command { command: vec!["true".into()] },
        model: None,
        sandbox: SandboxKind::Namespace,
        network: Network::None,
        limits: Limits::default(),
        attempts: None,
    };
    let (content, metrics) = (String::new(), Metrics::default());
    vec![
        Event::Submitted(Box::new(Submitted { agent, input: Input::default(), requeued_from: None })),
        Event::Claimed(Claimed { epoch: 1, claim: Uuid::nil(), host: "h".into(), worker: "w".into() }),
        Event::SandboxRequested(Requested { attempt: 1, name: "n".into(), host: "h".into() }),
        Event::SandboxStarted { attempt: 1, model: None, journal: 0 },
        Event::Output(Output { frames: Vec::new(), journal: 0, parser: serde_json::Value::Null }),
        Event::CancelRequested,
        Event::HandedOver { reason: String::new() },
        Event::AttemptFailed { attempt: 1, class: FailureClass::Setup, error: String::new(), retry_at: 0 },
        Event::CheckpointSaved { checkpoint: "c".into(), bytes: 0, conversation: None },
        Event::Completed { content: content.clone(), content_type: String::new(), truncated: false, metrics: metrics.clone(), tools: Vec::new() },
        Event::Failed { error: String::new(), error_type: String::new(), started: true, content, truncated: false, metrics, tools: Vec::new() },
        Event::Cancelled { reason: String::new() },
    ]
}

fn phases() -> Vec<Phase> {
    let sandbox = || Sandbox { name: "n".into(), host: "h".into() };
    vec![
        Phase::Waiting { retry_at: None },
        Phase::Requested(sandbox()),
        Phase::Started(sandbox()),
        Phase::Saved,
        Phase::Completed,
        Phase::Failed,
        Phase::Cancelled,
    ]
}

fn applied() -> Arrows {
    let recorded = |seq, event| Recorded { seq, first_index: 0, at: 0, event };
    let mut arrows = Arrows::new();
    for event in events() {
        if let Ok(run) = Run::start(&recorded(0, event.clone())) {
            arrows.insert(("(none)".into(), event.kind().into()), run.phase.name().into());
        }
    }
    let start = Run::start(&recorded(0, events().remove(0))).expect("a first event");
    for phase in phases() {
        for event in events() {
            let (from, kind) = (phase.name().to_owned(), event.kind().to_owned());
            let run = Run { phase: phase.clone(), ..start.clone() };
            if let Ok(run) = run.apply(&recorded(1, event)) {
                arrows.insert((from, kind), run.phase.name().into());
            }
        }
    }
    arrows
}

/// The page's table: a row for each event, a column for each phase, and in a cell the phase after it.
fn table() -> Arrows {
    let rows: Vec<Vec<&str>> = PAGE
        .lines()
        .filter(|line| line.starts_with('|') && !line.starts_with("|--"))
        .map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('`')).collect())
        .collect();
    let (head, rows) = rows.split_first().expect("a table");
    assert_eq!(head[1..], [&["(none)"][..], &Phase::NAMES].concat(), "a column for each phase");
    assert_eq!(rows.iter().map(|row| row[0]).collect::<Vec<_>>(), Event::KINDS, "a row for each event");
    let mut arrows = Arrows::new();
    for row in rows {
        for (phase, cell) in head.iter().zip(row).skip(1).filter(|(_, cell)| !cell.is_empty()) {
            arrows.insert(((*phase).into(), row[0].into()), (*cell).into());
        }
    }
    arrows
}

/// The page's diagram: `From --> To: event, event`.
fn diagram() -> Arrows {
    let mut arrows = Arrows::new();
    for line in PAGE.lines().filter(|line| line.contains("-->") && line.contains(": ")) {
        let (way, events) = line.split_once(": ").expect("a label");
        let (from, to) = way.split_once("-->").expect("an arrow");
        for event in events.split(", ") {
            let from = from.trim().replace("[*]", "(none)");
            assert_eq!(arrows.insert((from, event.trim().into()), to.trim().into()), None, "{line}");
        }
    }
    arrows
}

#[test]
fn every_phase_and_event_is_tried() {
    assert_eq!(events().iter().map(Event::kind).collect::<Vec<_>>(), Event::KINDS);
    assert_eq!(phases().iter().map(Phase::name).collect::<Vec<_>>(), Phase::NAMES);
}

#[test]
fn the_table_has_every_arrow_and_no_other() {
    assert_eq!(table(), applied());
}

#[test]
fn the_diagram_has_every_arrow_and_no_other() {
    assert_eq!(diagram(), applied());
}

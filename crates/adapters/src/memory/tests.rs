//! What only the log in memory has; the ports are tested by the conformance suite.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use runs::agents::{Agent, Harness, Limits, Network, SandboxKind};
use runs::{Input, Submitted};

use super::Memory;
use crate::{ClaimRequest, Driver, Intake, Reader, Refused, Submission, Terms};

fn submission(session: &str, key: &str) -> Submission {
    let agent = Agent {
        id: "echo".into(),
        name: "Echo".into(),
        description: String::new(),
        harness: Harness::Command { command: vec!["/bin/cat".into()] },
        model: None,
        sandbox: SandboxKind::Namespace,
        network: Network::None,
        limits: Limits::default(),
        attempts: None,
    };
    Submission {
        session_id: Some(session.into()),
        user_id: None,
        submitted: Submitted { agent, input: Input::default(), requeued_from: None },
        attachments: Vec::new(),
        key: Some((key.into(), Vec::new())),
        terms: Terms { queue_limit: Some(2), one_host: false },
    }
}

#[tokio::test]
async fn a_full_queue_refuses_what_is_new_and_answers_what_is_known() {
    let log = Memory::new();
    let first = log.submit(submission("s", "1")).await.expect("room");
    log.submit(submission("s", "2")).await.expect("room");
    assert!(matches!(log.submit(submission("t", "3")).await, Err(Refused::QueueFull)));
    assert_eq!(log.session("t", None).await.expect("an answer"), None, "a refusal leaves nothing");
    let again = log.submit(submission("s", "1")).await.expect("a known key");
    assert_eq!((again.run_id, again.new), (first.run_id, false));
    // A run that was claimed waits no more.
    let hosts = vec![("namespace".to_owned(), "a".to_owned())];
    let request = ClaimRequest { worker: "w".into(), hosts, lease_ms: 1000, dead_man_ms: 1000, session: None };
    log.claim(&request).await.expect("an answer").expect("a claim");
    assert!(log.submit(submission("t", "3")).await.expect("room").new);
}

#[tokio::test]
async fn time_is_the_tests_own() {
    let clock = Arc::new(AtomicI64::new(5_000));
    let read = clock.clone();
    let log = Memory::with_clock(Arc::new(move || read.load(Ordering::SeqCst)));
    let run = log.submit(submission("s", "1")).await.expect("room").run_id;
    assert_eq!(log.events(run, 0, 10).await.expect("an answer")[0].at, 5_000);
    clock.store(6_000, Ordering::SeqCst);
    log.advance(500);
    let run = log.submit(submission("s", "2")).await.expect("room").run_id;
    assert_eq!(log.events(run, 0, 10).await.expect("an answer")[0].at, 6_500);
}

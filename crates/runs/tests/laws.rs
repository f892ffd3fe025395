//! What holds of every log that is legal.

use proptest::prelude::*;
use runs::decide::{self, Verdict};
use runs::{Action, Event, FailureClass, Metrics, Phase, Recorded, Requested, Run, Seen, Status, next, project};

use crate::arbitrary;

fn fold(log: &[Recorded]) -> Run {
    Run::fold(log).expect("a legal log").expect("not empty")
}

/// The run after these events; `None` where one of them cannot follow.
fn after(run: &Run, events: Vec<Event>) -> Option<Run> {
    events.into_iter().try_fold(run.clone(), |run, event| {
        let next = Recorded { seq: run.seq + 1, first_index: run.next_index, at: 0, event };
        run.apply(&next).ok()
    })
}

/// The run when it last had a sandbox, or else as it is given one, and its harness started where that is asked for.
fn with_sandbox(log: &[Recorded], started: bool) -> Run {
    let before_end = (1..=log.len()).rev().map(|cut| fold(&log[..cut])).find(|run| !run.phase.has_ended() && run.phase != Phase::Saved);
    let run = before_end.expect("every run starts");
    let request = Event::SandboxRequested(Requested { attempt: run.attempt.saturating_add(1), name: "n".into(), host: "h".into() });
    let run = if run.phase.sandbox().is_none() { after(&run, vec![request]).expect("it folds") } else { run };
    let start = Event::SandboxStarted { attempt: run.attempt, model: None, journal: 0 };
    if started && matches!(run.phase, Phase::Requested(_)) { after(&run, vec![start]).expect("it folds") } else { run }
}

proptest! {
    #[test]
    fn every_prefix_of_a_legal_log_folds(log in arbitrary::legal_log()) {
        for cut in 1..=log.len() {
            let run = fold(&log[..cut]);
            let last = &log[cut - 1];
            prop_assert_eq!((run.seq, run.next_index), (last.seq, last.next_index()));
        }
        prop_assert!(Run::fold(&[]).expect("no event is no fault").is_none());
    }

    #[test]
    fn a_log_with_a_hole_or_a_repeat_does_not_fold(log in arbitrary::legal_log(), at in any::<prop::sample::Index>()) {
        let at = at.index(log.len());
        let mut hole = log.clone();
        hole.remove(at);
        // Without the last event it is only shorter.
        prop_assert!(at + 1 == log.len() || Run::fold(&hole).is_err());
        let mut repeat = log.clone();
        repeat.insert(at, log[at].clone());
        prop_assert!(Run::fold(&repeat).is_err());
    }

    #[test]
    fn an_ended_run_takes_no_event(log in arbitrary::legal_log(), event in arbitrary::any_event()) {
        let ended = after(&fold(&log), vec![failure()]).unwrap_or_else(|| fold(&log));
        prop_assert!(ended.phase.has_ended());
        let name = event.kind();
        prop_assert!(after(&ended, vec![event]).is_none(), "{name}");
    }

    #[test]
    fn a_wish_to_cancel_folds_wherever_a_run_is(log in arbitrary::legal_log()) {
        let run = fold(&log);
        // Nobody sees a run between its checkpoint and its end: they are one call.
        let run = if run.phase == Phase::Saved { after(&run, vec![failure()]).expect("it folds") } else { run };
        let events = decide::cancel(&run);
        let then = after(&run, events.clone()).expect("it folds");
        if run.phase.has_ended() {
            prop_assert!(events.is_empty());
        } else {
            prop_assert!(then.cancel_requested);
            prop_assert_eq!(then.phase == Phase::Cancelled, matches!(run.phase, Phase::Waiting { .. }));
            prop_assert_eq!(decide::cancel(&then), vec![], "a second wish changes nothing");
        }
    }

    #[test]
    fn a_failed_attempt_folds_wherever_a_run_goes_on(log in arbitrary::legal_log(), now in 0..i64::MAX / 2) {
        let run = if fold(&log).phase.has_ended() { fold(&log[..log.len() - 1]) } else { fold(&log) };
        for class in [FailureClass::Setup, FailureClass::SandboxLost, FailureClass::HostLost, FailureClass::WorkersLost] {
            let event = decide::attempt_failed(&run, class, "why", now);
            let retry = matches!(event, Event::AttemptFailed { .. });
            let then = after(&run, vec![event]).expect("it folds");
            prop_assert!(!retry || run.may_retry());
            match then.phase {
                Phase::Waiting { retry_at: Some(at) } => prop_assert!(retry && at > now),
                phase => prop_assert!(!retry && phase == Phase::Failed),
            }
        }
    }

    #[test]
    fn the_end_of_a_turn_folds(log in arbitrary::legal_log(), completed in any::<bool>(), saved in any::<bool>()) {
        // A verdict comes from a journal, so there is a sandbox; what never started neither completes nor leaves a workspace.
        let run = with_sandbox(&log, completed || saved);
        let events = decide::finish(verdict(completed), saved.then(|| decide::Checkpoint { id: "checkpoint".into(), bytes: 7, conversation: None }));
        prop_assert_eq!(events.iter().filter(|event| event.is_terminal()).count(), 1);
        let then = after(&run, events).expect("it folds");
        // Completed is said only of what is durable.
        prop_assert_eq!(then.phase == Phase::Completed, completed && saved);
        prop_assert!(then.phase.has_ended());
        prop_assert!(after(&run, vec![decide::cancelled()]).is_some());
    }

    #[test]
    fn there_is_a_next_step_for_all_that_can_be_seen(log in arbitrary::legal_log(), here in any::<bool>(), now in any::<i64>()) {
        let run = fold(&log);
        for seen in [Seen::Absent, Seen::Live, Seen::Ended, Seen::Lost] {
            let action = next(&run, seen, here, now);
            let over = run.phase.has_ended() || run.phase == Phase::Saved;
            prop_assert_eq!(action == Action::Nothing, over);
            if run.cancel_requested && !over {
                prop_assert!(matches!(action, Action::Stop | Action::Cancel), "{action:?}");
                prop_assert!(action == Action::Stop || seen != Seen::Live || !here || run.phase.sandbox().is_none(), "a live tree is stopped first");
            }
        }
    }

    #[test]
    fn the_projection_agrees_with_the_fold(log in arbitrary::legal_log()) {
        let (run, row) = (fold(&log), project(&log));
        let expected = match run.phase {
            Phase::Completed => Status::Completed,
            Phase::Failed => Status::Error,
            Phase::Cancelled => Status::Cancelled,
            _ if log.iter().any(|recorded| matches!(recorded.event, Event::Claimed(_))) => Status::Running,
            _ => Status::Pending,
        };
        prop_assert_eq!((row.status, row.cancel_requested, row.attempt), (expected, run.cancel_requested, run.attempt));
        prop_assert_eq!(row.ended_at.is_some(), run.phase.has_ended());
        prop_assert_eq!(row.status.has_ended(), run.phase.has_ended());
        prop_assert_eq!(Status::parse(row.status.name()), Some(row.status));
    }
}

fn failure() -> Event {
    decide::finish(verdict(false), None).remove(0)
}

fn verdict(completed: bool) -> Verdict {
    let (content, metrics) = (String::new(), Metrics::default());
    if completed {
        return Verdict::Completed { content, content_type: "text/plain".into(), truncated: false, metrics, tools: Vec::new() };
    }
    Verdict::Failed { error: "exit 3".into(), error_type: "harness".into(), started: true, content, truncated: false, metrics, tools: Vec::new() }
}

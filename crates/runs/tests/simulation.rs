//! `next` driven against a world in which everything goes wrong: workers die between any two steps, sandboxes and hosts are lost, users
//! change their minds. Whatever happens, the run ends, once; there are never two live sandboxes; and cancelled means dead.

use std::collections::BTreeMap;

use proptest::prelude::*;
use runs::agents::{Agent, Harness, Limits, Network, SandboxKind};
use runs::decide::{self, Verdict};
use runs::{Action, Claimed, Event, Frame, Input, Metrics, Output, Phase, Recorded, Requested, Run, Seen, Submitted, next};
use uuid::Uuid;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mishap {
    /// The worker dies after its next effect and before it is in the log.
    DiesBeforeTheLog,
    /// The worker dies between two steps; another one claims.
    Dies,
    HandsOver,
    Cancel,
    /// The runner and its tree are killed.
    SandboxLost,
    /// Its folder is gone, and the runner ends its tree for that.
    SandboxGone,
    /// The host is silent until it counts as dead; a worker of another one claims.
    HostLost,
    /// The sandbox cannot be made.
    SetupFails,
    /// The harness ends by itself.
    Ends {
        well: bool,
    },
}

fn mishaps() -> impl Strategy<Value = Vec<Option<Mishap>>> {
    let mishap = prop_oneof![
        3 => Just(Mishap::DiesBeforeTheLog),
        2 => Just(Mishap::Dies),
        2 => Just(Mishap::HandsOver),
        1 => Just(Mishap::Cancel),
        2 => Just(Mishap::SandboxLost),
        1 => Just(Mishap::SandboxGone),
        1 => Just(Mishap::HostLost),
        1 => Just(Mishap::SetupFails),
        1 => any::<bool>().prop_map(|well| Mishap::Ends { well }),
    ];
    prop::collection::vec(prop::option::weighted(0.5, mishap), 0..40)
}

struct World {
    log: Vec<Recorded>,
    run: Run,
    now: i64,
    /// Where the worker is that has the run.
    host: u32,
    /// What stands on the hosts, by name.
    sandboxes: BTreeMap<String, Seen>,
    claims: u64,
    /// How the harness ended, where it ended by itself.
    well: bool,
}

impl World {
    fn new(attempts: u32) -> Self {
        let agent = Agent {
            id: "a".into(),
            name: "a".into(),
            description: String::new(),
            harness: Harness::Command { command: vec!["true".into()] },
            model: None,
            sandbox: SandboxKind::Namespace,
            network: Network::None,
            limits: Limits::default(),
            attempts: Some(attempts),
        };
        let submitted = Submitted { agent, input: Input::default(), requeued_from: None };
        let first = Recorded { seq: 0, first_index: 0, at: 0, event: Event::Submitted(Box::new(submitted)) };
        let run = Run::start(&first).expect("a first event");
        let mut world = Self { log: vec![first], run, now: 0, host: 0, sandboxes: BTreeMap::new(), claims: 0, well: true };
        world.claim();
        world
    }

    fn append(&mut self, event: Event) {
        let recorded = Recorded { seq: self.run.seq + 1, first_index: self.run.next_index, at: self.now, event };
        self.run = self.run.clone().apply(&recorded).expect("what is decided folds");
        self.log.push(recorded);
    }

    fn claim(&mut self) {
        self.claims += 1;
        let (epoch, claim) = (self.claims, Uuid::from_u128(self.claims.into()));
        self.append(Event::Claimed(Claimed { epoch, claim, host: self.host.to_string(), worker: "w".into() }));
    }

    fn live(&self) -> usize {
        self.sandboxes.values().filter(|seen| **seen == Seen::Live).count()
    }

    fn end_live(&mut self, how: Seen) {
        self.sandboxes.values_mut().filter(|seen| **seen == Seen::Live).for_each(|seen| *seen = how);
    }

    fn here(&self) -> bool {
        self.run.phase.sandbox().is_none_or(|sandbox| sandbox.host == self.host.to_string())
    }

    fn look(&self) -> Seen {
        let named = self.run.phase.sandbox().filter(|_| self.here());
        named.and_then(|sandbox| self.sandboxes.get(&sandbox.name)).copied().unwrap_or(Seen::Absent)
    }

    fn befall(&mut self, mishap: Mishap) {
        match mishap {
            Mishap::Dies => self.claim(),
            Mishap::HandsOver => {
                self.append(Event::HandedOver { reason: "drain".into() });
                self.claim();
            }
            Mishap::Cancel => decide::cancel(&self.run).into_iter().for_each(|event| self.append(event)),
            Mishap::SandboxLost => self.end_live(Seen::Lost),
            Mishap::SandboxGone => self.sandboxes.clear(),
            Mishap::HostLost => {
                // Its runners' dead-man limits passed before anybody else may claim.
                self.end_live(Seen::Lost);
                self.host += 1;
                self.claim();
            }
            Mishap::Ends { well } => {
                self.well = well;
                self.end_live(Seen::Ended);
            }
            Mishap::DiesBeforeTheLog | Mishap::SetupFails => {}
        }
    }

    /// Takes the one next step. False when there is none.
    fn step(&mut self, mishap: Option<Mishap>) -> bool {
        let forgets = mishap == Some(Mishap::DiesBeforeTheLog);
        let (seen, here) = (self.look(), self.here());
        let decided = match next(&self.run, seen, here, self.now) {
            Action::Nothing => return false,
            Action::Wait { until } => {
                assert!(until > self.now, "what is waited for is to come");
                self.now = until;
                Vec::new()
            }
            Action::Request { attempt } => {
                vec![Event::SandboxRequested(Requested { attempt, name: format!("run-{attempt}"), host: self.host.to_string() })]
            }
            Action::Create if mishap == Some(Mishap::SetupFails) => {
                vec![decide::attempt_failed(&self.run, runs::FailureClass::Setup, "no", self.now)]
            }
            Action::Create => {
                let Phase::Requested(sandbox) = &self.run.phase else { panic!("a turn that has started is not started again") };
                let there = self.sandboxes.insert(sandbox.name.clone(), Seen::Live);
                assert!(there.is_none(), "a sandbox is made once");
                Vec::new()
            }
            Action::Follow => self.follow(seen),
            Action::Stop => {
                self.end_live(Seen::Ended);
                Vec::new()
            }
            Action::Cancel => {
                assert_eq!(self.live(), 0, "cancelled means dead");
                vec![decide::cancelled()]
            }
            Action::Fail(class) => {
                assert_eq!(self.live(), 0, "an attempt is given up when its sandbox is gone");
                vec![decide::attempt_failed(&self.run, class, "gone", self.now)]
            }
        };
        if forgets {
            self.claim();
        } else {
            decided.into_iter().for_each(|event| self.append(event));
        }
        true
    }

    /// One look at the journal: it has the start, then some output, and at last how it ended.
    fn follow(&mut self, seen: Seen) -> Vec<Event> {
        let attempt = self.run.attempt;
        match (&self.run.phase, seen) {
            (Phase::Requested(_), Seen::Live | Seen::Ended) => vec![Event::SandboxStarted { attempt, model: None, journal: 1 }],
            (_, Seen::Lost) => vec![decide::attempt_failed(&self.run, runs::FailureClass::SandboxLost, "lost", self.now)],
            (_, Seen::Ended) => {
                let (content, metrics) = (String::new(), Metrics::default());
                let verdict = if self.well {
                    Verdict::Completed { content, content_type: "text/plain".into(), truncated: false, metrics, tools: Vec::new() }
                } else {
                    Verdict::Failed {
                        error: "e".into(),
                        error_type: "harness".into(),
                        started: true,
                        content,
                        truncated: false,
                        metrics,
                        tools: Vec::new(),
                    }
                };
                decide::finish(verdict, Some(decide::Checkpoint { id: "c".into(), bytes: 1, conversation: None }))
            }
            (_, Seen::Live) => {
                // What it prints brings it nearer to its end.
                let journal = self.run.journal + 1;
                if journal > 5 {
                    self.end_live(Seen::Ended);
                }
                vec![Event::Output(Output { frames: vec![Frame::content("x".into())], journal, parser: serde_json::Value::Null })]
            }
            (phase, Seen::Absent) => panic!("nothing to follow when {phase:?}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]
    #[test]
    fn every_run_ends_once_whatever_goes_wrong(mishaps in mishaps(), attempts in 1..4_u32) {
        let mut world = World::new(attempts);
        let mut mishaps = mishaps.into_iter();
        let mut cancelled = false;
        // Each mishap costs a few steps at most; then nothing goes wrong any more.
        for step in 0.. {
            prop_assert!(step < 300, "it goes on and on: {:?}", world.log.iter().map(|recorded| recorded.event.kind()).collect::<Vec<_>>());
            let mishap = mishaps.next().flatten().filter(|_| !world.run.phase.has_ended());
            cancelled |= mishap == Some(Mishap::Cancel);
            mishap.into_iter().for_each(|mishap| world.befall(mishap));
            let goes_on = world.step(mishap);
            prop_assert!(world.live() <= 1, "two live sandboxes");
            if !goes_on {
                break;
            }
        }
        prop_assert!(world.run.phase.has_ended());
        prop_assert_eq!(world.log.iter().filter(|recorded| recorded.event.is_terminal()).count(), 1);
        prop_assert!(world.log.last().is_some_and(|last| last.event.is_terminal()));
        prop_assert_eq!(world.live(), 0, "what has ended left nothing alive");
        prop_assert!(world.sandboxes.len() <= attempts as usize && world.run.attempt <= attempts);
        // A wish is granted, unless the turn was over before it.
        prop_assert_eq!(world.run.phase == Phase::Cancelled, cancelled && world.run.cancel_requested);
    }
}

//! The function over a log in memory, with sandboxes that cannot be made: a run that is driven ends at once, as failed.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use adapters::memory::Memory;
use adapters::signals::Hub;
use adapters::{Accepted, ClaimRequest, Driver, Intake, Ring, Signal, Signals, Submission};
use async_trait::async_trait;
use runs::agents::parse;
use runs::{Input, Seen, Submitted};

use uuid::Uuid;
use worker::checkpoint::Checkpoints;
use worker::function::Message;
use worker::sandbox::{Attached, FillFn, Paths, Place, SandboxError, SandboxSpec, Sandboxes};
use worker::{Options, Parts, Time, Worker};

struct Unmakeable;

#[async_trait]
impl Sandboxes for Unmakeable {
    fn kind(&self) -> &'static str {
        "namespace"
    }

    fn host(&self) -> &'static str {
        "host"
    }

    async fn look(&self, _: &Place, _: u64) -> Result<Seen, SandboxError> {
        Ok(Seen::Absent)
    }

    async fn create(&self, _: &Place, _: u64, _: &SandboxSpec, _: FillFn) -> Result<(), SandboxError> {
        Err(SandboxError::SetUp("as the test wants".into()))
    }

    async fn attach(&self, _: &Place, _: u64, _: u64) -> Result<Attached, SandboxError> {
        Err(SandboxError::Absent)
    }

    async fn paths(&self, _: &Place) -> Paths {
        unreachable!("there is none")
    }

    async fn stop(&self, _: &Place, _: u64, _: &str, _: Duration) -> Result<(), SandboxError> {
        Ok(())
    }

    async fn remove(&self, _: &Place, _: u64) -> Result<(), SandboxError> {
        Ok(())
    }

    async fn list(&self) -> Result<Vec<Place>, SandboxError> {
        Ok(Vec::new())
    }

    async fn retire(&self, _: &Place) -> Result<(), SandboxError> {
        Ok(())
    }

    async fn sweep(&self, _: &Place) -> Result<(), SandboxError> {
        Ok(())
    }

    async fn erase(&self, _: Uuid) -> Result<(), SandboxError> {
        Ok(())
    }
}

#[async_trait]
impl Checkpoints for Unmakeable {
    async fn save(&self, _: Uuid, _: &str, _: &Paths, _: &'static [&'static str]) -> io::Result<(String, u64)> {
        Err(io::Error::other("nothing to save"))
    }

    fn restore(&self, _: &str, _: &Paths) -> io::Result<()> {
        Ok(())
    }

    async fn keep_only(&self, _: Uuid, _: &[&str]) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Default)]
struct Bell(Mutex<Vec<Uuid>>);

#[async_trait]
impl Ring for Bell {
    async fn ring(&self, session: Uuid) {
        self.0.lock().unwrap().push(session);
    }
}

struct Stage {
    memory: Arc<Memory>,
    bell: Arc<Bell>,
    signals: Arc<Hub>,
    worker: Arc<Worker>,
}

impl Stage {
    fn new() -> Stage {
        let (memory, bell, signals) = (Arc::new(Memory::new()), Arc::new(Bell::default()), Arc::new(Hub::poll()));
        let parts = Parts {
            driver: memory.clone(),
            signals: signals.clone(),
            ring: bell.clone(),
            sandboxes: vec![Arc::new(Unmakeable)],
            checkpoints: Arc::new(Unmakeable),
            metrics: Arc::default(),
            options: Options::default(),
        };
        Stage { memory, bell, signals, worker: Worker::new(parts) }
    }

    /// A run whose harness may take so many seconds.
    async fn accept(&self, session: &str, seconds: u32) -> Accepted {
        let text = format!(
            "[agents.a]\nharness = \"command\"\ncommand = [\"cat\"]\nnetwork = \"none\"\nattempts = 1\nlimits = {{ time = \"{seconds}s\" }}\n"
        );
        let agent = parse(&text).unwrap()["a"].clone();
        let submitted = Submitted { agent, input: Input::default(), requeued_from: None };
        let submission = Submission {
            session_id: Some(session.into()),
            user_id: None,
            submitted,
            attachments: Vec::new(),
            key: None,
            terms: adapters::Terms::default(),
        };
        self.memory.submit(submission).await.unwrap()
    }

    async fn kinds(&self, run: &Accepted) -> Vec<&'static str> {
        self.memory.events(run.run_id, 0, 100).await.unwrap().iter().map(|recorded| recorded.event.kind()).collect()
    }

    async fn ring(&self, session: Uuid, time: Time) -> Vec<String> {
        let body = format!("{{\"session\":\"{session}\",\"of a release to come\":1}}");
        self.worker.batch(vec![Message { id: "m".into(), body }], time).await
    }

    fn rung(&self) -> Vec<Uuid> {
        self.bell.0.lock().unwrap().clone()
    }
}

/// Of a worker on another machine.
fn request() -> ClaimRequest {
    let hosts = vec![("namespace".to_owned(), "elsewhere".to_owned())];
    ClaimRequest { worker: "other".into(), hosts, lease_ms: 60_000, dead_man_ms: 60_000, session: None }
}

fn in_seconds(seconds: u64) -> Time {
    Time::until(SystemTime::now() + Duration::from_secs(seconds))
}

const ENDED: [&str; 4] = ["run.submitted", "run.claimed", "sandbox.requested", "run.failed"];

#[tokio::test]
async fn a_ring_drives_all_of_its_session_and_nothing_else() {
    let stage = Stage::new();
    let (first, second, other) = (stage.accept("s", 10).await, stage.accept("s", 10).await, stage.accept("t", 10).await);
    assert!(stage.ring(first.session, Time::UNKNOWN).await.is_empty());
    assert_eq!((stage.kinds(&first).await, stage.kinds(&second).await), (ENDED.to_vec(), ENDED.to_vec()));
    assert_eq!(stage.kinds(&other).await, ["run.submitted"]);
}

#[tokio::test]
async fn the_end_of_a_run_is_told_as_far_as_the_log_has_it() {
    let stage = Stage::new();
    let run = stage.accept("s", 10).await;
    let mut heard = stage.signals.subscribe();
    stage.ring(run.session, Time::UNKNOWN).await;
    let next = stage.memory.events(run.run_id, 0, 100).await.unwrap().last().map(runs::Recorded::next_index);
    let mut told = None;
    while let Ok(signal) = heard.try_recv() {
        if let Signal::Advanced(advance) = signal {
            told = advance.next;
        }
    }
    assert!(next == Some(1) && told == next, "{told:?} of {next:?}");
}

#[tokio::test]
async fn a_message_with_nothing_to_do_is_done_with() {
    let stage = Stage::new();
    let held = stage.accept("s", 10).await;
    stage.memory.claim(&request()).await.unwrap().unwrap();
    let message = |body: String| Message { id: body.clone(), body };
    let bodies = ["", "junk", "{}", "[1]", "{\"session\":7}"].map(|body| message(body.into())).into_iter();
    let known = [held.session, Uuid::new_v4()].map(|session| message(format!("{{\"session\":\"{session}\"}}")));
    assert!(stage.worker.batch(bodies.chain(known).collect(), Time::UNKNOWN).await.is_empty());
    assert_eq!(stage.kinds(&held).await, ["run.submitted", "run.claimed"]);
}

#[test]
fn no_message_makes_the_worker_panic_or_come_to_a_stop() {
    use proptest::prelude::*;
    let json = "[\\[\\]{}:,\"0-9a-z \\\\-]{0,30}";
    let body = prop_oneof![
        ".{0,40}".boxed(),
        json.boxed(),
        json.prop_map(|value| format!("{{\"session\":{value}}}")).boxed(),
        ("[0-9a-f-]{30,38}", ".{0,5}").prop_map(|(id, more)| format!("{{\"session\":\"{id}\"{more}}}")).boxed(),
        (1usize..400).prop_map(|deep| "[".repeat(deep)).boxed(),
    ];
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(16) });
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let result = runner.run(&prop::collection::vec(body, 1..10), |bodies| {
        let again = runtime.block_on(async {
            let stage = Stage::new();
            let messages = bodies.into_iter().enumerate().map(|(n, body)| Message { id: n.to_string(), body });
            let run = stage.accept("s", 10).await;
            let ring = Message { id: "ring".into(), body: format!("{{\"session\":\"{}\"}}", run.session) };
            let again = stage.worker.batch(messages.chain([ring]).collect(), Time::UNKNOWN).await;
            assert_eq!(stage.kinds(&run).await, ENDED, "the one that is a ring is heard among them");
            again
        });
        prop_assert!(again.is_empty(), "{:?}", again);
        Ok(())
    });
    result.unwrap();
}

#[tokio::test]
async fn a_turn_that_the_time_left_cannot_hold_is_not_claimed() {
    let stage = Stage::new();
    let run = stage.accept("s", 60).await;
    assert!(stage.ring(run.session, in_seconds(70)).await.is_empty(), "and the message is not made to come again and again");
    assert_eq!(stage.kinds(&run).await, ["run.submitted"]);
    assert!(stage.rung().is_empty());
    assert!(stage.ring(run.session, in_seconds(80)).await.is_empty());
    assert_eq!(stage.kinds(&run).await, ENDED);
}

#[tokio::test]
async fn a_turn_for_which_no_time_is_left_after_another_is_rung_for_again() {
    let stage = Stage::new();
    let (short, long) = (stage.accept("s", 5).await, stage.accept("s", 60).await);
    assert!(stage.ring(short.session, in_seconds(40)).await.is_empty());
    assert_eq!((stage.kinds(&short).await, stage.kinds(&long).await), (ENDED.to_vec(), vec!["run.submitted"]));
    assert_eq!(stage.rung(), [short.session]);
}

#[tokio::test]
async fn a_sweep_rings_for_every_session_that_nobody_holds() {
    let stage = Stage::new();
    let mut expected = Vec::new();
    // More than a page of the log's answers.
    for n in 0..120 {
        expected.push(stage.accept(&n.to_string(), 10).await.session);
    }
    let held = stage.memory.claim(&request()).await.unwrap().unwrap();
    expected.retain(|session| *session != held.session);
    stage.worker.sweep().await.unwrap();
    let mut rung = stage.rung();
    rung.sort();
    expected.sort();
    assert_eq!(rung, expected);
}

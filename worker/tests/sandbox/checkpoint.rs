//! A checkpoint that takes for ever, as one of a large workspace does for whoever waits.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use adapters::memory::Memory;
use adapters::signals::{Hub, NoRing};
use adapters::{Driver, Intake, Submission, Terms};
use async_trait::async_trait;
use runs::agents::parse;
use runs::{Input, Submitted};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use uuid::Uuid;
use worker::checkpoint::Checkpoints;
use worker::sandbox::Paths;
use worker::{Options, Parts, Stop, Worker};

use super::rig::Rig;

const LIMIT: Duration = Duration::from_secs(30);

#[derive(Default)]
struct Endless {
    begun: Notify,
}

#[async_trait]
impl Checkpoints for Endless {
    async fn save(&self, _: Uuid, _: &str, _: &Paths, _: &'static [&'static str]) -> io::Result<(String, u64)> {
        self.begun.notify_one();
        std::future::pending().await
    }

    fn restore(&self, _: &str, _: &Paths) -> io::Result<()> {
        Ok(())
    }

    async fn keep_only(&self, _: Uuid, _: &[&str]) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_wish_to_cancel_does_not_wait_for_a_checkpoint() {
    let (rig, memory, endless) = (Rig::new(), Arc::new(Memory::new()), Arc::new(Endless::default()));
    let worker = Worker::new(Parts {
        driver: memory.clone(),
        signals: Arc::new(Hub::poll()),
        ring: Arc::new(NoRing),
        sandboxes: vec![Arc::new(rig.sandboxes.clone())],
        checkpoints: endless.clone(),
        metrics: Arc::default(),
        options: Options { lease: Duration::from_secs(3), ..Options::default() },
    });
    let agent = parse("[agents.a]\nharness = \"command\"\ncommand = [\"/bin/echo\", \"done\"]\nnetwork = \"none\"\n").unwrap()["a"].clone();
    let submitted = Submitted { agent, input: Input::default(), requeued_from: None };
    let submission = Submission { session_id: None, user_id: None, submitted, attachments: Vec::new(), key: None, terms: Terms::default() };
    let run = memory.submit(submission).await.unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let working = tokio::spawn(worker.run(async {
        let _ = stopped.await;
        Stop::EndSandboxes
    }));
    timeout(LIMIT, endless.begun.notified()).await.expect("a checkpoint");
    memory.cancel("a", run.run_id, None).await.unwrap().unwrap();
    // Nothing tells of it but the heartbeat.
    let cancelled = async {
        while memory.events(run.run_id, 0, 100).await.unwrap().last().unwrap().event.kind() != "run.cancelled" {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LIMIT, cancelled).await.expect("the end");
    stop.send(()).unwrap();
    working.await.unwrap();
}

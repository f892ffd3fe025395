//! One suite for every carrier of signals, and what each does beyond it.

mod cases;
mod listen;
mod redis;

use std::sync::Arc;
use std::time::{Duration, Instant};

use adapters::redis::Seal;
use adapters::signals::Hub;
use adapters::{Advance, Signal, Signals, postgres};
use async_trait::async_trait;
use e2e::Redis;
use runs::{Event, Frame, Output, Recorded};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use uuid::Uuid;

use crate::world::Schema;

const LIMIT: Duration = Duration::from_secs(20);
const KEEP: Duration = Duration::from_secs(60);

/// A deployment's means of signalling.
#[async_trait]
trait Carrier: Send + Sync {
    /// Of one more process of it, once its carrier is up.
    async fn hub(&self) -> Hub;
    fn carries(&self) -> bool {
        true
    }
    /// Whether events come along.
    fn brings_events(&self) -> bool {
        false
    }
    /// Of another deployment beside it, on the same servers.
    async fn stranger(&self) -> Hub;
}

struct Poll;

#[async_trait]
impl Carrier for Poll {
    async fn hub(&self) -> Hub {
        Hub::poll()
    }

    fn carries(&self) -> bool {
        false
    }

    async fn stranger(&self) -> Hub {
        Hub::poll()
    }
}

struct Listen {
    schema: Schema,
    other: Schema,
}

impl Listen {
    async fn new() -> Self {
        Self { schema: Schema::migrated().await, other: Schema::migrated().await }
    }
}

async fn listening(schema: &Schema) -> Hub {
    let log = postgres::connect(&schema.url, &schema.name, 4).await.expect("connected");
    up(postgres::listen(&schema.url, &schema.name, log)).await
}

#[async_trait]
impl Carrier for Listen {
    async fn hub(&self) -> Hub {
        listening(&self.schema).await
    }

    async fn stranger(&self) -> Hub {
        listening(&self.other).await
    }
}

struct InRedis(Redis);

/// Of the deployment.
fn seal() -> Seal {
    Seal::new(Some("a secret of the log"))
}

#[async_trait]
impl Carrier for InRedis {
    async fn hub(&self) -> Hub {
        up(adapters::redis::connect(&self.0.url(), "ours:", KEEP, seal()).expect("a URL")).await
    }

    fn brings_events(&self) -> bool {
        true
    }

    async fn stranger(&self) -> Hub {
        up(adapters::redis::connect(&self.0.url(), "theirs:", KEEP, seal()).expect("a URL")).await
    }
}

async fn up(hub: Hub) -> Hub {
    becomes(&hub, true).await;
    hub
}

async fn becomes(hub: &Hub, up: bool) {
    let mut carried = hub.carried();
    let changed = tokio::time::timeout(LIMIT, carried.wait_for(|carried| carried.up == up)).await;
    changed.unwrap_or_else(|_| panic!("it stays {:?}", hub.carried().borrow().clone())).expect("its carrier");
}

/// An event of so many frames.
fn said(first_index: u32, texts: &[&str]) -> Arc<Recorded> {
    let frames = texts.iter().map(|text| Frame::content((*text).to_owned())).collect();
    let event = Event::Output(Output { frames, journal: 1, parser: serde_json::Value::Null });
    Arc::new(Recorded { seq: first_index + 2, first_index, at: 1_700_000_000_123, event })
}

/// Waits for a signal that is such.
async fn hears<T>(heard: &mut Receiver<Signal>, such: impl Fn(&Signal) -> Option<T>) -> T {
    let hearing = async {
        loop {
            match heard.recv().await {
                Ok(signal) => match such(&signal) {
                    Some(found) => return found,
                    None => continue,
                },
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => panic!("the hub is gone"),
            }
        }
    };
    tokio::time::timeout(LIMIT, hearing).await.expect("it is heard")
}

fn advance_of(run: Uuid) -> impl Fn(&Signal) -> Option<Advance> {
    move |signal| match signal {
        Signal::Advanced(advance) if advance.run_id == run => Some(advance.clone()),
        _ => None,
    }
}

/// Whether words get from one to the other, which may take a while.
async fn speak_again(here: &Hub, heard: &mut Receiver<Signal>, run: Uuid) {
    let mut next = 1000;
    let end = Instant::now() + LIMIT;
    loop {
        next += 1;
        here.send(Signal::up_to(run, next));
        let hearing = hears(heard, |signal| advance_of(run)(signal).filter(|advance| advance.next == Some(next)));
        if tokio::time::timeout(Duration::from_millis(300), hearing).await.is_ok() {
            return;
        }
        assert!(Instant::now() < end, "nothing is heard");
    }
}

macro_rules! suite {
    ($carrier:ident $new:expr; $($case:ident),+ $(,)?) => {
        mod $carrier {
            #[expect(unused_imports, reason = "each carrier is made of its own")]
            use super::super::{InRedis, Listen, Poll, Redis};

            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::super::cases::$case(&$new).await;
            })+
        }
    };
}

macro_rules! each {
    ($($case:ident),+ $(,)?) => {
        mod over {
            suite!(poll Poll; $($case),+);
            suite!(listen Listen::new().await; $($case),+);
            suite!(redis InRedis(Redis::start().await); $($case),+);
            suite!(valkey InRedis(Redis::valkey().await); $($case),+);
        }
    };
}

each!(
    what_is_sent_is_heard_in_its_own_process_at_once,
    what_is_followed_is_heard_in_other_processes,
    what_was_said_shortly_before_is_not_believed_to_be_lost,
    what_nobody_follows_is_not_heard_elsewhere,
    another_deployment_hears_nothing,
    a_burst_ends_with_what_was_said_last,
    settling_ends,
);

//! Random sequences of what api and workers do, in one world and in the other: the answers are equal, and so is what is left.

mod player;

use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

use crate::world::{Log, World, memory, postgres};
use player::Player;

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Submit {
        session: usize,
        owner: usize,
        key: Option<usize>,
        input: usize,
        /// How many may wait.
        room: Option<u32>,
    },
    Requeue {
        run: usize,
    },
    Cancel {
        run: usize,
    },
    Erase {
        session: usize,
    },
    Claim {
        worker: usize,
        session: Option<usize>,
        lasting: bool,
    },
    /// A worker does what fits to where its run is. One that does not look first decides on what it knew before.
    Step {
        worker: usize,
        choice: usize,
        looks: bool,
    },
    HandOver {
        worker: usize,
        looks: bool,
    },
    Heartbeat {
        workers: Vec<usize>,
    },
}

const WORKERS: usize = 3;

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let worker = || 0..WORKERS;
    let op = prop_oneof![
        4 => (0..3_usize, 0..8_usize, prop::option::weighted(0.3, 0..3_usize), 0..2_usize, prop::option::weighted(0.4, 0..4_u32))
            .prop_map(|(session, owner, key, input, room)| Op::Submit { session, owner: owner / 6, key, input, room }),
        1 => (0..6_usize).prop_map(|run| Op::Requeue { run }),
        2 => (0..6_usize).prop_map(|run| Op::Cancel { run }),
        1 => (0..3_usize).prop_map(|session| Op::Erase { session }),
        5 => (worker(), prop::option::weighted(0.2, 0..3_usize), prop::bool::weighted(0.7))
            .prop_map(|(worker, session, lasting)| Op::Claim { worker, session, lasting }),
        14 => (worker(), 0..8_usize, prop::bool::weighted(0.8)).prop_map(|(worker, choice, looks)| Op::Step { worker, choice, looks }),
        1 => (worker(), prop::bool::weighted(0.8)).prop_map(|(worker, looks)| Op::HandOver { worker, looks }),
        1 => prop::collection::vec(worker(), 0..4).prop_map(|workers| Op::Heartbeat { workers }),
    ];
    prop::collection::vec(op, 1..70)
}

/// All answers in order, then all that can be read.
async fn play(log: Arc<dyn Log>, ops: &[Op]) -> Vec<String> {
    let mut player = Player::new(log);
    let mut said = Vec::new();
    for op in ops {
        let answer = player.play(op).await;
        said.push(format!("{op:?} -> {answer}"));
    }
    said.extend(player.read_all().await);
    said
}

fn check(cases: u32, test: impl AsyncFn(Vec<Op>) -> Result<(), String>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let result = runner.run(&ops(), |ops| runtime.block_on(test(ops)).map_err(TestCaseError::fail));
    if let Err(failure) = result {
        panic!("{failure}");
    }
}

#[test]
fn the_log_in_memory_stays_legal_whatever_is_done() {
    check(300, async |ops| {
        play(memory().await.log(), &ops).await;
        Ok(())
    });
}

#[test]
fn the_log_in_postgres_answers_as_the_one_in_memory() {
    check(40, async |ops| {
        let (in_memory, in_postgres) = (play(memory().await.log(), &ops).await, play(postgres().await.log(), &ops).await);
        let until = in_memory.iter().zip(&in_postgres).position(|(one, other)| one != other);
        match until {
            Some(n) => Err(format!("{}\nmemory:   {}\npostgres: {}", in_memory[..n].join("\n"), in_memory[n], in_postgres[n])),
            None => Ok(()),
        }
    });
}

//! The driving function: it claims a session, folds its run's events, and drives a sandbox from where they leave off.
//!
//! [`Worker`] drives several sessions at once, one turn each. As a process it polls (`poll`), as a function it is rung ([`function`]). [`sandbox`] is where harnesses run, [`harness`] what is made of
//! their output, [`checkpoint`] what stays of a workspace. `drive/` is the loop: what the log says and what the sandbox shows give one action, until
//! there is none.
//!
//! The law of this crate: **whoever comes next goes on.** Every step is in the log before it is taken or can be seen in the world after it was; a worker
//! that dies anywhere is followed by one that folds, looks and continues, and the turn does not run again. A worker's end ends no sandbox.

pub mod checkpoint;
pub mod config;
mod drive;
pub mod files;
mod folders;
pub mod function;
pub mod harness;
mod lease;
mod poll;
pub mod sandbox;
mod sweep;
mod time;
mod worker;

use std::sync::Arc;
use std::time::Duration;

use adapters::metrics::Metrics;
use adapters::{Driver, Ring, Signals};

pub use poll::Stop;
pub use time::Time;
pub use worker::Worker;

/// What a worker works with.
pub struct Parts {
    pub driver: Arc<dyn Driver>,
    pub signals: Arc<dyn Signals>,
    pub ring: Arc<dyn Ring>,
    /// One for each kind that this host can make.
    pub sandboxes: Vec<Arc<dyn sandbox::Sandboxes>>,
    pub checkpoints: Arc<dyn checkpoint::Checkpoints>,
    pub metrics: Arc<Metrics>,
    pub options: Options,
}

#[derive(Clone, Debug)]
pub struct Options {
    /// For people, in the log: which worker it was.
    pub name: String,
    /// For people: the machine's name.
    pub label: String,
    /// How long a claim holds without a heartbeat; there is one every third of it.
    pub lease: Duration,
    /// How long a runner outlives its last visit.
    pub dead_man: Duration,
    /// Turns at once.
    pub turns: usize,
    /// How often it looks for work that no signal told of.
    pub poll: Duration,
    /// Between SIGINT and SIGKILL of a cancelled turn.
    pub grace: Duration,
    /// How often it looks for what was left behind.
    pub sweep: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            name: "worker".into(),
            label: "localhost".into(),
            lease: Duration::from_secs(15),
            dead_man: Duration::from_secs(600),
            turns: 8,
            poll: Duration::from_millis(500),
            grace: Duration::from_secs(2),
            sweep: Duration::from_secs(30),
        }
    }
}

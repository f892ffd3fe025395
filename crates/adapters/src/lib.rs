//! How runs reach the world, for both functions.
//!
//! The ports, one per kind of user: [`Intake`] accepts, cancels and erases; [`Reader`] shows; [`Driver`] claims and appends; [`queue::Queue`] is what operators
//! see; [`Signals`] wakes, and
//! [`Ring`] calls workers that are functions. Behind them stand [`postgres`] (the log itself), [`memory`] (for tests; one conformance suite runs over both)
//! and [`sqs`]; [`redis`] and [`postgres::listen`] carry signals. [`config`] and [`program`] are what every program that is wired from these reads and
//! does at its start; [`metrics`] is what it counts.
//!
//! The law of this crate: **the log is the fence.** Every append names the `seq` it takes and is refused with [`AppendError::Taken`] where that is taken,
//! so a writer that lost its lease cannot write. Every write is one call; what is refused leaves nothing behind. Signals may be lost, doubled or
//! late: they save time and decide nothing.

pub mod config;
pub mod memory;
pub mod metrics;
mod ports;
pub mod postgres;
pub mod program;
pub mod queue;
pub mod redis;
pub mod signals;
pub mod sqs;

pub use ports::{
    Accepted, AppendError, Attachment, CancelAnswer, Claim, ClaimRequest, Cursor, Driver, Erased, Finish, Health, Holding, HostSeen, Intake,
    LogError, Notice, PAGE_BYTES, Page, Place, Reader, Ready, Refused, RunPage, RunRow, RunsQuery, Scope, SessionRow, Submission, Terms, Unended,
    WaitingFor,
};
pub use signals::{Advance, Carried, Following, Ring, RingState, Signal, Signals};

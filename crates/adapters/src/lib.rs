//! How runs reach the world, for both functions.
//!
//! The ports, one per kind of user: [`Intake`] accepts, cancels and erases; [`Reader`] shows; [`Driver`] claims and appends; [`Signals`] wakes.
//! Behind them stand [`postgres`] (the log itself) and [`memory`] (for tests). One conformance suite runs over both.
//!
//! The law of this crate: **the log is the fence.** Every append names the `seq` it takes and is refused with [`AppendError::Taken`] where that is taken,
//! so a writer that lost its lease cannot write. Every write is one call; what is refused leaves nothing behind. Signals may be lost, doubled or
//! late: they save time and decide nothing.

pub mod memory;
mod ports;
pub mod postgres;
pub mod signals;

pub use ports::{
    Accepted, AppendError, Attachment, CancelAnswer, Claim, ClaimRequest, Cursor, Driver, Erased, Finish, Health, Holding, HostSeen, Intake,
    LogError, Notice, PAGE_BYTES, Page, Place, Reader, Ready, Refused, RunPage, RunRow, RunsQuery, Scope, SessionRow, Submission, WaitingFor,
};
pub use signals::{Signal, Signals};

//! What a run is: its events, how they fold, and what is to be done next.
//!
//! A run is one turn of a session. Its log is a list of [`Event`]s; [`Run::apply`] folds them and rejects what cannot follow;
//! [`next`] says the one thing to do, given what the world looks like; [`decide`] turns a wish or a verdict into events;
//! [`frame::frames`] says what viewers see of an event. [`agents`] reads `agents.toml`.
//!
//! The law of this crate: **everything here is a function of its arguments.** No I/O, no clock, no randomness, no runtime: times and ids
//! come in as values. So whoever holds the log and can look at the sandbox, on any machine and after any crash, comes to the same
//! decision, and every law of a run can be tested without a database.

pub mod agents;
mod content;
pub mod decide;
mod event;
pub mod frame;
mod next;
mod project;
mod run;
mod text;
mod tools;

pub use content::Content;
pub use event::{Claimed, Event, EventError, FailureClass, Input, InputFile, Output, Recorded, Requested, Submitted};
pub use frame::{Frame, Metrics, Tool};
pub use next::{Action, Seen, next};
pub use project::{Projection, Status, project, terminal_status};
pub use run::{Claim, IllegalEvent, Phase, Run, Sandbox};
pub use text::visible;
pub use tools::Tools;

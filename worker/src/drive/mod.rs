//! One claimed run, driven to its end or to where this worker has to let go.

mod finish;
mod follow;
mod give_up;
mod ledger;
mod sandbox;
mod turn;

pub(crate) use turn::{Outcome, drive};

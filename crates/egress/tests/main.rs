//! The real program.

#![expect(clippy::unwrap_used, reason = "helpers of tests are tests too")]

mod program;

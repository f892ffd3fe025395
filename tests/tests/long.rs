//! The slow end-to-end tests, which `./dev test long` runs.

#![expect(clippy::expect_used, reason = "the message is what a failing test shows")]

mod deployed;
mod long_runs;
mod matrix;
mod schemathesis;

//! The worker's tests from outside: those in `sandbox` need a real system.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests too")]

mod function;
mod sandbox;

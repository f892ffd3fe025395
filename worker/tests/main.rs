//! The worker's tests that need a real system.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests too")]

mod sandbox;

//! The worker's tests that need a real system.

mod sandbox;

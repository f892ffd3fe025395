//! (skeleton)
pub mod sandbox;

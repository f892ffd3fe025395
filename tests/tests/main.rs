//! The quick end-to-end tests: real binaries, real Postgres, real sandboxes.

#![expect(clippy::expect_used, reason = "the message is what a failing test shows")]

mod admission;
mod auth;
mod bad_input;
mod cases;
mod claude;
mod command_line;
mod crash;
mod egress;
mod faults;
mod imports;
mod lambda;
mod lifecycle;
mod matrix;
mod signals;

//! The quick end-to-end tests: real binaries, real Postgres, real sandboxes.

mod bad_input;
mod cases;
mod command_line;
mod imports;
mod lifecycle;

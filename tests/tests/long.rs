//! The slow end-to-end tests, which `./dev test long` runs.

mod deployed;
mod long_runs;
mod schemathesis;

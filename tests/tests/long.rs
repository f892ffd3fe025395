//! The slow end-to-end tests, which `./dev test long` runs.

mod long_runs;

//! `./dev bench`: what Sandlog does in a second, beside the limit of the same machine in the same minute.
//!
//! Absolute figures hold for one machine and one hour. Each row has a limit that was measured in the same run, and the ratio of the two.

#![expect(clippy::expect_used, reason = "the message is what a failing benchmark shows")]

mod accept;
mod append;
mod cpu;
mod pgbench;
mod read;
mod report;
mod tail;
mod turn;

fn main() {
    let wanted = std::env::args().nth(1);
    let is_wanted = |name: &str| wanted.as_deref().is_none_or(|wanted| wanted == name);
    if wanted.as_deref().is_some_and(|name| !["accept", "append", "read", "tail", "turn"].contains(&name)) {
        eprintln!("./dev bench [accept|append|read|tail|turn]");
        std::process::exit(2);
    }
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    if is_wanted("accept") {
        runtime.block_on(accept::run());
    }
    if is_wanted("append") {
        runtime.block_on(append::run());
    }
    if is_wanted("read") {
        runtime.block_on(read::run());
    }
    if is_wanted("tail") {
        runtime.block_on(tail::run());
    }
    if is_wanted("turn") {
        runtime.block_on(turn::run());
    }
}

mod beacon;
mod cli;
mod client;
mod config;
mod postgres;
mod random;
fn main() {}

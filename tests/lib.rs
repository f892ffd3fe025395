//! What end-to-end tests stand on: deployments of the real binaries, and a client that believes nothing.
//!
//! A [`Deployment`] is any number of `sandlog` processes on one data folder and one database of their own. Its end is part of every test: no process, no
//! mount and no sandbox of it may be left. [`Http`] checks on the way what holds for every answer: frames are numbered without gaps, and say so twice alike.
//!
//! Law: nothing here may be imported by what is tested, and tests wait for conditions ([`eventually`]), never for time.

// A helper of tests fails as tests do.
#![expect(clippy::expect_used, reason = "the message is what a failing test shows")]

pub mod binaries;
pub mod database;
pub mod deployment;
pub mod emulator;
pub mod functions;
pub mod group;
pub mod http;
pub mod instance;
pub mod link;
pub mod pooler;
pub mod proxy;
pub mod redis;
pub mod standin;
pub mod suite;
pub mod traces;
pub mod viewer;

use std::future::Future;
use std::time::{Duration, Instant};

pub use self::redis::Redis;
pub use database::Database;
pub use deployment::{Deployment, Shape};
pub use http::{Http, Streamed};
pub use instance::Instance;

/// Waits until `condition` gives something, or panics with `what` after `limit`.
pub async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, limit: Duration, mut condition: impl FnMut() -> F) -> T {
    let end = Instant::now() + limit;
    let mut clock = tokio::time::interval(Duration::from_millis(10));
    loop {
        clock.tick().await;
        if let Some(found) = condition().await {
            return found;
        }
        assert!(Instant::now() < end, "{what}: not within {limit:?}");
    }
}

/// A name that no other test has.
pub fn unique(prefix: &str) -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let nanos = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_nanos();
    format!("{prefix}-{:x}-{:x}-{:x}", std::process::id(), nanos, NEXT.fetch_add(1, Ordering::Relaxed))
}

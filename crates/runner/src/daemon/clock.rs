//! The two clocks: limits run on the one that counts while the machine sleeps, records are stamped by the other.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::ClockId;

/// Time since boot, sleep included.
pub(super) fn now() -> Duration {
    let now = rustix::time::clock_gettime(ClockId::Boottime);
    Duration::new(now.tv_sec.cast_unsigned(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// Milliseconds since 1970.
pub(super) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

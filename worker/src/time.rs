//! The time that a worker has, and the time that a turn needs.

use std::time::{Duration, Instant, SystemTime};

use adapters::Ready;

/// What a turn needs beyond its harness's limit: to make the sandbox, to kill what does not end, to save the checkpoint.
const MARGIN: Duration = Duration::from_secs(15);

/// Until when a worker may work; unknown for one that is not a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time(Option<Instant>);

impl Time {
    pub const UNKNOWN: Time = Time(None);

    /// An invocation's. A deadline in the past is what an emulator says that does not know.
    pub fn until(deadline: SystemTime) -> Time {
        let left = deadline.duration_since(SystemTime::now()).ok().filter(|left| !left.is_zero());
        Time(left.and_then(|left| Instant::now().checked_add(left)))
    }

    pub fn left(self) -> Option<Duration> {
        self.0.map(|end| end.saturating_duration_since(Instant::now()))
    }
}

/// What the turn may take from now on.
pub(crate) fn need(ready: &Ready) -> Duration {
    Duration::from_millis(ready.time_limit_ms.saturating_sub(ready.running_ms.unwrap_or(0))) + MARGIN
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_deadline_in_the_past_is_an_unknown_one() {
        assert_eq!(Time::until(SystemTime::UNIX_EPOCH + Duration::from_secs(600)), Time::UNKNOWN);
        let left = Time::until(SystemTime::now() + Duration::from_secs(100)).left().unwrap();
        assert!(left <= Duration::from_secs(100) && left > Duration::from_secs(90), "{left:?}");
    }

    #[test]
    fn a_turn_that_runs_already_needs_what_is_left_of_its_limit() {
        let ready = |running_ms| Ready { session: Uuid::nil(), run_id: Uuid::nil(), time_limit_ms: 60_000, running_ms };
        assert_eq!(need(&ready(None)), Duration::from_secs(75));
        assert_eq!(need(&ready(Some(50_000))), Duration::from_secs(25));
        assert_eq!(need(&ready(Some(600_000))), MARGIN);
    }
}

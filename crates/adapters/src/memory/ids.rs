//! Ids that sort in the order in which they were given out, as the log's own do.

use uuid::{Builder, Uuid};

#[derive(Debug, Default)]
pub(super) struct Ids {
    millis: u64,
    counter: u16,
}

impl Ids {
    /// The version's four bits leave twelve for the counter.
    const COUNTER_END: u16 = 1 << 12;

    pub(super) fn next(&mut self, now: i64) -> Uuid {
        let now = u64::try_from(now).unwrap_or(0);
        self.counter += 1;
        if now > self.millis {
            (self.millis, self.counter) = (now, 0);
        } else if self.counter == Self::COUNTER_END {
            (self.millis, self.counter) = (self.millis + 1, 0);
        }
        let mut tail = [0; 10];
        tail.copy_from_slice(&Uuid::new_v4().as_bytes()[..10]);
        tail[..2].copy_from_slice(&self.counter.to_be_bytes());
        Builder::from_unix_timestamp_millis(self.millis, &tail).into_uuid()
    }
}

#[cfg(test)]
mod tests {
    use super::Ids;

    #[test]
    fn ids_rise_within_a_millisecond_and_when_the_clock_goes_back() {
        let mut ids = Ids::default();
        let given: Vec<_> = (0..10_000).map(|n| ids.next(if n < 6_000 { 1_700_000_000_000 } else { 1_600_000_000_000 })).collect();
        assert!(given.is_sorted_by(|a, b| a < b));
        assert!(given.iter().all(|id| id.get_version_num() == 7));
    }
}

//! What a process counts of itself, as Prometheus reads it. Api and worker of one process share it; what is true of the whole deployment is asked of the
//! log when somebody looks.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use runs::Status;
use tokio::sync::watch;

use crate::{Carried, Unended};

/// Prometheus tells what [`Metrics::text`] gives from its older format by the type.
pub const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

type By = Family<[(&'static str, &'static str); 1], Counter>;
type Levels = Family<[(&'static str, &'static str); 1], Gauge>;

/// Seconds, from what a signal takes to what a queue takes.
const SECONDS: [f64; 14] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 300.0, 3600.0];

/// What a hint was good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// It had a viewer's next frame.
    Hit,
    /// It had nothing new.
    Stale,
    /// It told of more than it had, so the log was asked.
    Miss,
}

#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    carried: OnceLock<watch::Receiver<Carried>>,
    signals: Levels,
    viewers: Gauge,
    runs: Levels,
    /// Nothing where it is not known.
    oldest: Family<[(&'static str, &'static str); 1], Gauge<f64, AtomicU64>>,
    accepted: Counter,
    driven: Gauge,
    ended: By,
    claim_delay: Histogram,
    tail_lag: Histogram,
    hints: By,
    reads: Counter<u64, AtomicU64>,
}

impl Default for Metrics {
    fn default() -> Self {
        let seconds = || Histogram::new(SECONDS);
        let (claim_delay, tail_lag) = (seconds(), seconds());
        let (signals, runs, oldest) = (Levels::default(), Levels::default(), Family::default());
        let (viewers, accepted, driven, reads) = (Gauge::default(), Counter::default(), Gauge::default(), Counter::default());
        let (ended, hints) = (By::default(), By::default());
        // From the start, so that a rate sees the first of each.
        for status in [Status::Completed, Status::Error, Status::Cancelled] {
            drop(ended.get_or_create(&[("status", status.name())]));
        }
        for hint in [Hint::Hit, Hint::Stale, Hint::Miss] {
            drop(hints.get_or_create(&[("use", hint.word())]));
        }
        let mut registry = Registry::with_prefix("sandlog");
        registry.register("signals_up", "Whether signals of other processes reach this one, by what carries them", signals.clone());
        registry.register("viewers", "Streams of runs that are open here", viewers.clone());
        registry.register("runs", "Runs of the deployment that have not ended, by status", runs.clone());
        registry.register("oldest_run_seconds", "Since the oldest run of the deployment was accepted, by status", oldest.clone());
        registry.register("runs_accepted", "Runs that this process accepted", accepted.clone());
        registry.register("runs_driven", "Runs that this process drives", driven.clone());
        registry.register("runs_ended", "Runs that this process ended, by status", ended.clone());
        registry.register("claim_delay_seconds", "From a run's acceptance to its first claim, of those claimed here", claim_delay.clone());
        registry.register("tail_lag_seconds", "From an event's commit to its being at hand for viewers here, over two clocks", tail_lag.clone());
        registry.register("hints", "Signals of progress of runs that are watched here, by what they were good for", hints.clone());
        registry.register("tail_reads", "Queries of the tail", reads.clone());
        Self { registry, carried: OnceLock::new(), signals, viewers, runs, oldest, accepted, driven, ended, claim_delay, tail_lag, hints, reads }
    }
}

impl Metrics {
    /// Where it is said whether signals come. The first word holds: api and worker of one process hear the same.
    pub fn hears(&self, carried: watch::Receiver<Carried>) {
        let _ = self.carried.set(carried);
    }

    /// One more stream, until the answer is dropped.
    pub fn viewer(&self) -> Viewer {
        self.viewers.inc();
        Viewer(self.viewers.clone())
    }

    pub fn accepted(&self) {
        self.accepted.inc();
    }

    pub fn driven(&self, runs: usize) {
        self.driven.set(i64::try_from(runs).unwrap_or(i64::MAX));
    }

    pub fn ended(&self, status: Status) {
        self.ended.get_or_create(&[("status", status.name())]).inc();
    }

    /// Both by the database's clock, in milliseconds.
    pub fn claimed(&self, accepted_at: i64, claimed_at: i64) {
        self.claim_delay.observe(seconds(claimed_at - accepted_at));
    }

    /// `at` is the commit's, by the database's clock.
    pub fn shown(&self, at: i64) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        self.tail_lag.observe(seconds(i64::try_from(now).unwrap_or(i64::MAX) - at));
    }

    pub fn hint(&self, hint: Hint) {
        self.hints.get_or_create(&[("use", hint.word())]).inc();
    }

    pub fn read(&self) {
        self.reads.inc();
    }

    /// The text that Prometheus reads. `None`: the log does not answer, so what only it knows is left as it was.
    pub fn text(&self, unended: Option<Unended>) -> String {
        if let Some(carried) = self.carried.get() {
            let Carried { carrier, up, .. } = *carried.borrow();
            // It may have been another one before.
            self.signals.clear();
            self.signals.get_or_create(&[("carrier", carrier)]).set(i64::from(up));
        }
        if let Some(Unended { pending, running, oldest_ms }) = unended {
            self.oldest.get_or_create(&[("status", Status::Pending.name())]).set(seconds(i64::try_from(oldest_ms).unwrap_or(i64::MAX)));
            for (status, count) in [(Status::Pending, pending), (Status::Running, running)] {
                self.runs.get_or_create(&[("status", status.name())]).set(i64::try_from(count).unwrap_or(i64::MAX));
            }
        }
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

/// A stream that is counted as open.
#[derive(Debug)]
pub struct Viewer(Gauge);

impl Drop for Viewer {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Hint {
    fn word(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Stale => "stale",
            Self::Miss => "miss",
        }
    }
}

/// A negative time is two clocks that differ.
#[expect(clippy::cast_precision_loss, reason = "milliseconds of some hours")]
fn seconds(ms: i64) -> f64 {
    ms.max(0) as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_told() {
        let metrics = Metrics::default();
        metrics.accepted();
        metrics.ended(Status::Completed);
        metrics.ended(Status::Completed);
        metrics.claimed(1_000, 1_500);
        metrics.hint(Hint::Hit);
        metrics.driven(3);
        let (left, open) = (metrics.viewer(), metrics.viewer());
        drop(left);
        let (switch, carried) = watch::channel(Carried { carrier: "listen", up: true, why: None });
        metrics.hears(carried);
        assert!(!metrics.text(None).contains("oldest_run_seconds{"), "who does not know says nothing");
        switch.send_replace(Carried { carrier: "poll", up: false, why: None });
        let text = metrics.text(Some(Unended { pending: 2, running: 1, oldest_ms: 1500 }));
        drop(open);
        assert!(!text.contains("listen"), "{text}");
        for line in [
            "sandlog_signals_up{carrier=\"poll\"} 0",
            "sandlog_viewers 1",
            "sandlog_oldest_run_seconds{status=\"PENDING\"} 1.5",
            "sandlog_hints_total{use=\"miss\"} 0",
            "sandlog_runs_ended_total{status=\"ERROR\"} 0",
            "sandlog_runs{status=\"PENDING\"} 2",
            "sandlog_runs{status=\"RUNNING\"} 1",
            "sandlog_runs_accepted_total 1",
            "sandlog_runs_driven 3",
            "sandlog_runs_ended_total{status=\"COMPLETED\"} 2",
            "sandlog_claim_delay_seconds_sum 0.5",
            "sandlog_claim_delay_seconds_bucket{le=\"0.25\"} 0",
            "sandlog_hints_total{use=\"hit\"} 1",
        ] {
            assert!(text.lines().any(|one| one == line), "{line} is not in\n{text}");
        }
    }
}

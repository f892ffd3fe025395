//! Figures for people.

use std::time::Duration;

/// What a load came to.
#[derive(Debug, Default)]
pub(crate) struct Times(Vec<Duration>);

impl Times {
    pub(crate) fn add(&mut self, time: Duration) {
        self.0.push(time);
    }

    pub(crate) fn extend(&mut self, other: Times) {
        self.0.extend(other.0);
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// The time that so many of a hundred stay under.
    pub(crate) fn percentile(&mut self, of_100: usize) -> Duration {
        self.0.sort_unstable();
        let at = (self.0.len() * of_100 / 100).min(self.0.len().saturating_sub(1));
        self.0.get(at).copied().unwrap_or_default()
    }
}

pub(crate) fn title(text: &str) {
    println!("\n{text}");
}

/// One row: what was measured, the figure, and each limit with the ratio to it.
pub(crate) fn row(what: &str, figure: f64, unit: &str, limits: &[(&str, f64)], more: &str) {
    let limits: String = limits.iter().map(|(name, limit)| format!("   {name} {limit:.0} ({:.2})", figure / limit)).collect();
    println!("  {what:<22} {figure:>9.0} {unit}{limits}   {more}");
}

pub(crate) fn ms(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1000.0)
}

pub(crate) fn ratio(figure: Duration, limit: Duration) -> f64 {
    figure.as_secs_f64() / limit.as_secs_f64()
}

/// An aim, and whether it is met.
pub(crate) fn aim(aim: &str, is_met: bool) -> String {
    format!("aim {aim}: {}", if is_met { "met" } else { "not met" })
}

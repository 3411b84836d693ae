//! Measured times, and their percentiles.

use std::time::Duration;

/// Times of one kind of call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples(Vec<Duration>);

impl Samples {
    pub(crate) fn push(&mut self, time: Duration) {
        self.0.push(time);
    }

    /// Number of times.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The first time in milliseconds; NaN if nothing was measured.
    pub(crate) fn first(&self) -> f64 {
        self.0
            .first()
            .map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
    }

    /// The median in milliseconds; NaN if nothing was measured.
    pub(crate) fn median(&self) -> f64 {
        self.percentile(50)
    }

    /// The time that this percentage of the calls doesn't exceed, in milliseconds.
    pub(crate) fn percentile(&self, percent: usize) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let at = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
        sorted
            .get(at)
            .map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        let mut samples = Samples::default();
        assert!(samples.median().is_nan());
        for ms in [9, 1, 5] {
            samples.push(Duration::from_millis(ms));
        }
        assert!((samples.median() - 5.0).abs() < 1e-9);
    }
}

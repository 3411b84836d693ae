//! Measured times, and their median.

use std::time::{Duration, Instant};

use anyhow::Result;

/// Times of one kind of call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples(Vec<Duration>);

impl Samples {
    pub(crate) fn push(&mut self, time: Duration) {
        self.0.push(time);
    }

    /// Measures a call; returns its answer.
    pub(crate) fn time<T>(&mut self, call: impl FnOnce() -> Result<T>) -> Result<T> {
        let started = Instant::now();
        let answer = call()?;
        self.push(started.elapsed());
        Ok(answer)
    }

    /// The median in milliseconds; NaN if nothing was measured.
    pub(crate) fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let middle = sorted.get(sorted.len() / 2);
        middle.map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
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

//! Samples of long walks.

use std::env;

/// If this variable is set, each walk visits each of its points, and each system call fails with
/// each error. Otherwise a walk visits a sample.
pub const ALL_POINTS: &str = "IPAM_DELEGATED_ALL_KILL_POINTS";

/// The environment variable with a number that moves the sample. `cargo xtask test` takes it from
/// the commit.
pub const SAMPLE: &str = "IPAM_DELEGATED_SAMPLE";

/// A sample has one of this many points.
const STRIDE: usize = 5;

/// The points that a walk visits: all of them with [`ALL_POINTS`], otherwise every fifth, beginning
/// with the one that [`SAMPLE`] selects.
pub fn sample<T>(points: Vec<T>) -> Vec<T> {
    if env::var_os(ALL_POINTS).is_some() {
        return points;
    }
    points
        .into_iter()
        .skip(first() % STRIDE)
        .step_by(STRIDE)
        .collect()
}

/// True for one of two neighbours, which [`SAMPLE`] selects, and for both with [`ALL_POINTS`].
pub fn is_in_turn(number: usize) -> bool {
    env::var_os(ALL_POINTS).is_some() || (number + first()).is_multiple_of(2)
}

fn first() -> usize {
    let number = env::var(SAMPLE).ok().and_then(|text| text.parse().ok());
    number.unwrap_or(0)
}

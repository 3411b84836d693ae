//! Waits for a future: until it is ready, the time is up, or the call is cancelled.

use std::pin::pin;
use std::time::Duration;

use cni::Cancellation;
use tokio::time::timeout;

/// Interval in which a cancellation is noticed.
const CANCELLATION_INTERVAL: Duration = Duration::from_millis(20);

/// The reason why a future was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GivenUp {
    /// The time is up.
    TimeIsUp,
    /// The call was cancelled.
    Cancelled,
}

/// Waits for a future.
pub(super) async fn wait_for<T>(
    future: impl Future<Output = T>,
    at_most: Duration,
    cancellation: Option<&dyn Cancellation>,
) -> Result<T, GivenUp> {
    let mut future = pin!(future);
    let mut left = at_most;
    loop {
        let slice = cancellation.map_or(left, |_| left.min(CANCELLATION_INTERVAL));
        if let Ok(output) = timeout(slice, future.as_mut()).await {
            return Ok(output);
        }
        if cancellation.is_some_and(Cancellation::is_cancelled) {
            return Err(GivenUp::Cancelled);
        }
        left = left.saturating_sub(slice);
        if left.is_zero() {
            return Err(GivenUp::TimeIsUp);
        }
    }
}

//! SIGTERM and SIGINT: the daemon ends after the calls that are running.

use std::io;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Takes the signals from now on; the future ends with the first one.
///
/// # Errors
///
/// An I/O error of `sigaction` or of the signals' pipe.
pub(crate) fn requested() -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Waits until all connections have ended, for this time at most.
pub(crate) async fn finish(mut connections: JoinSet<()>, at_most: Duration) {
    let all = async { while connections.join_next().await.is_some() {} };
    if timeout(at_most, all).await.is_err() {
        tracing::warn!("calls are still running; what they did is undone at the next start");
    }
}

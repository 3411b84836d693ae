//! SIGTERM and SIGINT: the daemon ends after the calls that are running.

use std::time::Duration;

use anyhow::Result;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// The signals.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Begins to take signals.
    ///
    /// # Errors
    ///
    /// An I/O error of `sigaction` or of the signals' pipe.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for a signal.
    pub(crate) async fn received(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Waits for the connections that are there to end, and no longer than this.
pub(crate) async fn finish(mut connections: JoinSet<()>, at_most: Duration) {
    let all = async { while connections.join_next().await.is_some() {} };
    if timeout(at_most, all).await.is_err() {
        tracing::warn!("calls are still running; what they did is undone at the next start");
    }
}

//! Code that the clients of both engines share.

use std::error::Error;
use std::pin::pin;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::time_limit::CANCELLATION_INTERVAL;
use crate::{Kind, StoreError, TimeLimit};

/// Runs a client's asynchronous requests in this thread.
pub struct Executor(Option<Runtime>);

/// A request that ended without an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Its time is up.
    TimeIsUp,
    /// The call is cancelled.
    Cancelled,
}

impl Executor {
    /// # Errors
    ///
    /// [`Kind::Unable`]: the machine has no free file descriptor.
    pub fn new() -> Result<Self, StoreError> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let failed =
            |error| StoreError::new(Kind::Unable, format!("the client can't start: {error}"));
        Ok(Self(Some(runtime.map_err(failed)?)))
    }

    /// Waits for the outcome of a request, for this time at most.
    ///
    /// # Errors
    ///
    /// There is no outcome. The request may have been executed.
    pub fn run<T>(
        &self,
        request: impl Future<Output = T>,
        time: &TimeLimit<'_>,
        within: Duration,
    ) -> Result<T, Ended> {
        let runtime = self.0.as_ref().expect("it is there until the drop");
        runtime.block_on(async {
            let mut request = pin!(request);
            let mut left = within;
            loop {
                let slice = left.min(CANCELLATION_INTERVAL);
                if let Ok(outcome) = timeout(slice, request.as_mut()).await {
                    return Ok(outcome);
                }
                if time.is_cancelled() {
                    return Err(Ended::Cancelled);
                }
                left = left.saturating_sub(slice);
                if left.is_zero() {
                    return Err(Ended::TimeIsUp);
                }
            }
        })
    }
}

impl Drop for Executor {
    /// Doesn't wait for the thread that resolves a host name: a silent name server would hold the
    /// call for longer than its timeout.
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// The messages of an error and of its sources, outermost first, without duplicates.
pub fn reason(error: &(dyn Error + 'static)) -> String {
    let mut texts: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        if !texts.iter().any(|known| known.contains(&text)) {
            texts.push(text);
        }
        next = error.source();
    }
    // The outer messages only say that there is a transport error.
    if texts.len() > 1 {
        texts.retain(|text| !matches!(text.as_str(), "transport error" | "tcp connect error"));
    }
    texts.join(": ")
}

/// True if a handshake failed for this reason because one side doesn't trust the other, or because
/// the server has no TLS. Another attempt would fail as well.
pub fn is_distrust(reason: &str) -> bool {
    let texts = [
        "invalid peer certificate",
        "received fatal alert",
        "corrupt message",
    ];
    texts.iter().any(|text| reason.contains(text))
}

/// True if a request failed for this reason because the server refuses the client's certificate.
///
/// With TLS 1.3, the server does so after the handshake, and executes no request. After any other
/// failure of TLS, the request may have been executed.
pub fn is_client_refused(reason: &str) -> bool {
    let refusals = ["Certificate", "UnknownCA", "AccessDenied"];
    reason.contains("received fatal alert") && refusals.iter().any(|alert| reason.contains(alert))
}

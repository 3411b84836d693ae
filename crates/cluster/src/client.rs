//! Code that the clients of both engines share.

use std::error::Error;

use tokio::runtime::{Builder, Runtime};

use crate::{EngineError, Kind};

/// Runs a client's asynchronous requests.
pub struct Executor(Option<Runtime>);

impl Executor {
    /// # Errors
    ///
    /// The machine has no free file descriptor.
    pub fn new() -> Result<Self, EngineError> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let failed =
            |error| EngineError::new(Kind::Unable, format!("the client can't start: {error}"));
        Ok(Self(Some(runtime.map_err(failed)?)))
    }

    /// Waits for the request's answer.
    pub fn run<T>(&self, request: impl Future<Output = T>) -> T {
        let runtime = self.0.as_ref().expect("it is there until the drop");
        runtime.block_on(request)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_alert_about_the_certificate_proves_that_nothing_was_executed() {
        for alert in ["CertificateRequired", "BadCertificate", "UnknownCA"] {
            assert!(is_client_refused(&format!("received fatal alert: {alert}")));
        }
        for other in [
            "received fatal alert: BadRecordMac",
            "received fatal alert: InternalError",
            "received corrupt message of type InvalidContentType",
            "invalid peer certificate: BadSignature",
        ] {
            assert!(!is_client_refused(other), "{other}");
            assert!(is_distrust(other), "{other}");
        }
        assert!(!is_distrust("connection refused"));
    }

    /// An error with its source.
    #[derive(Debug)]
    struct Because(&'static str, Option<Box<Because>>);

    impl std::fmt::Display for Because {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Because {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|source| source as _)
        }
    }

    #[test]
    fn a_reason_has_each_message_once_and_no_transport_error_beside_its_source() {
        for (messages, text) in [
            (&["transport error"] as &[_], "transport error"),
            (
                &["transport error", "tcp connect error", "connection refused"],
                "connection refused",
            ),
            (
                &["no answer: timed out", "timed out", "of 10.0.0.1"],
                "no answer: timed out: of 10.0.0.1",
            ),
        ] {
            let source = |source, message: &&'static str| {
                let source: Option<Box<Because>> = source;
                Some(Box::new(Because(message, source)))
            };
            let error = messages.iter().rev().fold(None, source).unwrap();
            assert_eq!(reason(&*error), text);
        }
    }
}

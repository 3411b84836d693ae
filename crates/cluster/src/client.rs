//! What the clients of both engines share: an [`Executor`] that runs requests in this thread, until the
//! time is up or the call is cancelled, and the meaning of a failure without an answer
//! ([`Access::kind_without_answer`]): whether the request may have been executed. Who has refused whom
//! in a handshake is told by the texts of its error.

use std::error::Error;
use std::future::pending;
use std::iter::successors;
use std::time::Duration;

use tokio::net::unix::pipe::Receiver;
use tokio::runtime::{Builder, Runtime};
use tokio::time::sleep;

use crate::{Kind, StoreError, TimeLimit};

/// Runs a client's asynchronous requests in this thread.
pub struct Executor(Option<Runtime>);

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It changes nothing.
    Read,
    /// It may change something.
    Write,
}

impl Access {
    /// Kind of a failure after which the request may have been executed.
    pub fn unanswered(self) -> Kind {
        match self {
            Self::Read => Kind::Unreachable,
            Self::Write => Kind::Lost,
        }
    }

    /// Kind of a failure without an answer, for this reason.
    pub fn kind_without_answer(self, reason: &str, was_sent: bool) -> Kind {
        if is_client_refused(reason) || (!was_sent && is_distrust(reason)) {
            Kind::Refused
        } else if was_sent {
            self.unanswered()
        } else {
            Kind::Unreachable
        }
    }
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
    /// There is no outcome in time, or the call is cancelled. The request may have been executed.
    pub fn run<T>(
        &self,
        request: impl Future<Output = T>,
        time: &TimeLimit<'_>,
        within: Duration,
        access: Access,
    ) -> Result<T, StoreError> {
        let is_cancelled = || StoreError::new(Kind::Cancelled, "the call is cancelled");
        let is_late = || StoreError::new(access.unanswered(), "there is no answer in time");
        if time.is_cancelled() {
            return Err(is_cancelled());
        }
        let runtime = self.0.as_ref().expect("it is there until the drop");
        runtime.block_on(async {
            let cancelled = async {
                let copy = time
                    .cancellation()
                    .and_then(|fd| fd.try_clone_to_owned().ok());
                match copy.map(Receiver::from_owned_fd_unchecked) {
                    // Only waited for: it may be blocking, and of any kind.
                    Some(Ok(copy)) => drop(copy.readable().await),
                    _ => pending().await,
                }
            };
            tokio::select! {
                biased;
                outcome = request => Ok(outcome),
                () = cancelled => Err(is_cancelled()),
                () = sleep(within) => Err(is_late()),
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

/// An error and its sources, outermost first.
pub fn sources<'e>(
    error: &'e (dyn Error + 'static),
) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    successors(Some(error), |error| (*error).source())
}

/// The messages of an error and of its sources, outermost first, without duplicates.
pub fn reason(error: &(dyn Error + 'static)) -> String {
    let mut texts: Vec<String> = Vec::new();
    for text in sources(error).map(ToString::to_string) {
        if !texts.iter().any(|known| known.contains(&text)) {
            texts.push(text);
        }
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
fn is_client_refused(reason: &str) -> bool {
    let refusals = ["Certificate", "UnknownCA", "AccessDenied"];
    reason.contains("received fatal alert") && refusals.iter().any(|alert| reason.contains(alert))
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::io::{self, PipeReader, Write};
    use std::os::fd::{AsFd, BorrowedFd};

    use cni::Cancellation;

    use super::*;

    /// Cancelled by a byte in its pipe.
    struct Pipe(PipeReader);

    impl Cancellation for Pipe {
        fn is_cancelled(&self) -> bool {
            false
        }

        fn fd(&self) -> io::Result<BorrowedFd<'_>> {
            Ok(self.0.as_fd())
        }
    }

    #[test]
    fn a_request_ends_with_its_outcome_its_time_or_the_cancellation_and_undoing_heeds_none() {
        let hour = Duration::from_secs(3600);
        let (reader, mut writer) = io::pipe().unwrap();
        let pipe = Pipe(reader);
        let (executor, limit) = (Executor::new().unwrap(), TimeLimit::new(hour, Some(&pipe)));
        let kind = |within| {
            let ended = executor.run(pending::<()>(), &limit, within, Access::Write);
            ended.unwrap_err().kind
        };
        let answered = executor.run(ready(1), &limit, hour, Access::Write);
        assert_eq!(answered, Ok(1));
        assert_eq!(kind(Duration::ZERO), Kind::Lost);
        writer.write_all(b"!").unwrap();
        assert_eq!(kind(hour), Kind::Cancelled);
        assert!(!limit.pause(hour / 2));
        limit.renew();
        assert_eq!(kind(Duration::ZERO), Kind::Lost);
        assert!(limit.pause(Duration::ZERO));
    }
}

//! Reason why a call of Docker's is refused, and its HTTP status.

use std::fmt;
use std::io;

/// The reason why a call fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The HTTP status: 200 if the request is understood, and can't be done.
    pub(crate) status: u16,
    why: String,
}

impl Refusal {
    /// A refusal with this HTTP status.
    pub(crate) fn new(status: u16, why: impl Into<String>) -> Self {
        let why = why.into();
        Self { status, why }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl From<cni::Error> for Refusal {
    /// The message. The details are for the log: people read what Docker prints in one
    /// line.
    fn from(error: cni::Error) -> Self {
        if !error.details.is_empty() {
            tracing::info!(error.code, error.msg, error.details);
        }
        impossible(error.msg)
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        impossible(error.to_string())
    }
}

/// The refusal of a request that is understood, and can't be done.
pub(crate) fn impossible(why: impl Into<String>) -> Refusal {
    Refusal::new(200, why)
}

/// The refusal to do what could not be remembered.
pub(crate) fn cant_remember(error: &io::Error) -> Refusal {
    impossible(format!("the daemon's state can't be written: {error}"))
}

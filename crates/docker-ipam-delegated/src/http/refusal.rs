//! Reasons why a call of Docker's is refused, and their HTTP statuses.

use std::fmt;
use std::io;

/// The reason why a call fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The request can't be decoded: 400.
    Undecodable(String),
    /// Nobody answers this path: 404.
    UnknownPath(String),
    /// Docker only posts: 405.
    NotPosted,
    /// The body didn't come in time: 408.
    TooSlow,
    /// The body is too large: 413.
    TooLarge,
    /// The peer may not call: 403.
    Forbidden(String),
    /// The request is understood and can't be done: 200, and the text in `Err`.
    Impossible(String),
}

impl Refusal {
    /// The HTTP status of the answer.
    pub(crate) fn status(&self) -> u16 {
        match self {
            Self::Undecodable(_) => 400,
            Self::Forbidden(_) => 403,
            Self::UnknownPath(_) => 404,
            Self::NotPosted => 405,
            Self::TooSlow => 408,
            Self::TooLarge => 413,
            Self::Impossible(_) => 200,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Undecodable(why) | Self::Forbidden(why) | Self::Impossible(why) => {
                f.write_str(why)
            }
            Self::UnknownPath(path) => write!(f, "{path} is no call of Docker's that is answered"),
            Self::NotPosted => f.write_str("a call is a POST"),
            Self::TooSlow => f.write_str("the request did not come in time"),
            Self::TooLarge => f.write_str("the request is larger than 1 MiB"),
        }
    }
}

impl From<cni::Error> for Refusal {
    /// The message. The details are for the log: people read what Docker prints in one
    /// line.
    fn from(error: cni::Error) -> Self {
        if !error.details.is_empty() {
            tracing::info!(error.code, error.msg, error.details);
        }
        Self::Impossible(error.msg)
    }
}

/// A [`Refusal::Impossible`].
pub(crate) fn impossible(why: impl Into<String>) -> Refusal {
    Refusal::Impossible(why.into())
}

/// The refusal to do what could not be remembered.
pub(crate) fn cant_remember(error: &io::Error) -> Refusal {
    impossible(format!("the daemon's state can't be written: {error}"))
}

//! Failures of a store, by what the caller can do.

use cni::code;
use derive_more::{Display, Error};

/// A failure: its kind, and a message that names the endpoint or the file.
#[derive(Clone, Debug, Display, Error, PartialEq, Eq)]
#[display("{msg}")]
pub struct StoreError {
    /// Kind of the failure.
    pub kind: Kind,
    /// The message, one sentence.
    pub msg: String,
}

/// Kinds of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file that the settings name can't be used (code 7).
    Settings,
    /// The engine refuses this client, or the client refuses the engine's certificate: nothing was
    /// changed (code 113).
    Refused,
    /// The engine answers that it can't do it, for example because its disk is full or a policy
    /// forbids it: nothing was changed (code 11).
    Unable,
    /// There was no answer in time, and no change was sent (code 11). Another attempt may succeed.
    Unreachable,
    /// There was no answer to a change in time: it may have been made, or may be made later
    /// (code 11). Another attempt may succeed.
    Lost,
    /// The call was cancelled. As with [`Kind::Lost`], a change may have been made (code 106).
    Cancelled,
}

impl StoreError {
    /// An error of this kind.
    pub fn new(kind: Kind, msg: impl Into<String>) -> Self {
        Self {
            kind,
            msg: msg.into(),
        }
    }

    /// True if a change may have been made.
    pub fn may_have_changed(&self) -> bool {
        matches!(self.kind, Kind::Lost | Kind::Cancelled)
    }

    /// True if another attempt may succeed.
    pub fn may_pass(&self) -> bool {
        matches!(self.kind, Kind::Unreachable | Kind::Lost)
    }
}

impl From<StoreError> for cni::Error {
    fn from(error: StoreError) -> Self {
        let code = match error.kind {
            Kind::Settings => code::INVALID_CONFIG,
            Kind::Refused => code::ENGINE_REFUSED,
            Kind::Unable | Kind::Unreachable | Kind::Lost => code::TRY_AGAIN_LATER,
            Kind::Cancelled => code::INTERRUPTED,
        };
        Self::new(code, error.msg)
    }
}

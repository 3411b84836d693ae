//! Failures of an engine, by what the caller can do.

use std::fmt;

use cni::code;

/// A failure: its kind, and a message that names the endpoint or the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineError {
    /// Kind of the failure.
    pub kind: Kind,
    /// The message, one sentence.
    pub msg: String,
}

/// Kinds of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file that the settings name can't be used.
    Settings,
    /// The engine refuses this client, or the client refuses the engine's certificate: nothing
    /// was changed.
    Refused,
    /// A file of this node can't be read or written: nothing was changed.
    Io,
    /// The engine has not answered in time. No change was sent.
    Unreachable,
    /// There was no answer to a change in time: it may have been made, or may be made later.
    Lost,
    /// The engine can't do it now, for example because its disk is full: nothing was changed.
    Unable,
    /// The call was cancelled. As with [`Kind::Lost`], a change may have been made.
    Cancelled,
}

impl EngineError {
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
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.msg)
    }
}

impl std::error::Error for EngineError {}

impl From<EngineError> for cni::Error {
    fn from(error: EngineError) -> Self {
        let code = match error.kind {
            Kind::Settings => code::INVALID_CONFIG,
            Kind::Io => code::IO,
            Kind::Refused => code::ENGINE_REFUSED,
            Kind::Unreachable | Kind::Lost | Kind::Unable => code::TRY_AGAIN_LATER,
            Kind::Cancelled => code::INTERRUPTED,
        };
        Self::new(code, error.msg)
    }
}

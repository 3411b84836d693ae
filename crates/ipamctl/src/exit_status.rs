//! Exit status of a command that could do what it was asked for. An error is status 2.

use std::process::ExitCode;

/// Exit status of a command that ended without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// Nothing was found.
    Fine,
    /// Something was found: leaks, a wrong conflist, an ADD that would be refused.
    Found,
}

impl Status {
    /// [`Status::Found`] if there are findings.
    pub(crate) fn of(has_findings: bool) -> Self {
        if has_findings {
            Self::Found
        } else {
            Self::Fine
        }
    }
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        match status {
            Status::Fine => Self::SUCCESS,
            Status::Found => Self::from(1),
        }
    }
}

//! Errors of a chain: the failed delegates with command and message, and the delegates that
//! were undone.

use cni::{Attachment, Command, DelegateName, Error, NetworkConfig};

/// A failed delegate: name, call and error.
#[derive(Debug)]
pub(crate) struct FailedDelegate {
    pub(crate) delegate: DelegateName,
    /// Its command, with the attachment and the network.
    pub(crate) call: String,
    pub(crate) error: Error,
}

impl FailedDelegate {
    pub(crate) fn new(
        delegate: &DelegateName,
        command: Command,
        attachment: Option<&Attachment>,
        config: &NetworkConfig,
        error: Error,
    ) -> Self {
        let network = config.name();
        let call = match attachment {
            Some(attachment) => format!("{command} of {attachment} on network {network}"),
            None => format!("{command} on network {network}"),
        };
        Self {
            delegate: delegate.clone(),
            call,
            error,
        }
    }

    /// The delegate's error, with its name in front and its call.
    pub(crate) fn into_error(self) -> Error {
        Error::new(self.error.code, self.in_one_line())
            .with_line(&format!("asked {}: {}", self.delegate, self.call))
            .with_line(&self.error.details)
    }

    fn in_one_line(&self) -> String {
        format!("{}: {}", self.delegate, self.error.msg)
    }
}

/// An ADD that has failed and has been undone.
#[derive(Debug)]
pub(crate) struct FailedAdd {
    /// The failed delegate.
    pub(crate) failed: FailedDelegate,
    /// True if the failed delegate may still hold an address.
    pub(crate) may_hold: bool,
    /// True if one of its processes could not be terminated.
    pub(crate) has_unterminated: bool,
    /// The delegates whose DEL has succeeded.
    pub(crate) undone: Vec<DelegateName>,
    /// The delegates whose DEL has failed.
    pub(crate) not_undone: Vec<FailedDelegate>,
}

impl FailedAdd {
    /// The delegate's error, with the list of the delegates that were undone.
    pub(crate) fn into_error(self) -> Error {
        let mut error = self.failed.into_error();
        if !self.undone.is_empty() {
            let names: Vec<&str> = self.undone.iter().map(DelegateName::as_str).collect();
            error = error.with_line(&format!("undone by DEL: {}", names.join(", ")));
        }
        for failed in self.not_undone {
            let mut line = format!("not undone, DEL failed: {}", failed.in_one_line());
            if let Some(last) = failed.error.details.lines().next_back() {
                line = format!("{line} ({last})");
            }
            error = error.with_line(&line);
        }
        error
    }
}

/// The error of a command that stops at the first failure.
pub(crate) fn first_error(failed: Vec<FailedDelegate>) -> Result<(), Error> {
    let first = failed.into_iter().next();
    first.map_or(Ok(()), |failed| Err(failed.into_error()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(delegate: &str, call: &str, code: u64, msg: &str, details: &str) -> FailedDelegate {
        FailedDelegate {
            delegate: delegate.parse().unwrap(),
            call: call.to_owned(),
            error: Error::new(code, msg).with_details(details),
        }
    }

    #[test]
    fn an_add_fails_with_the_delegates_error_and_tells_what_was_undone() {
        let error = FailedAdd {
            failed: failed(
                "b",
                "ADD of c1 eth0 on network net",
                11,
                "full",
                "10.0.0.0/24",
            ),
            may_hold: true,
            has_unterminated: false,
            undone: vec!["a".parse().unwrap()],
            not_undone: vec![failed(
                "b",
                "DEL of c1 eth0 on network net",
                102,
                "died",
                "stderr: x\ny",
            )],
        };
        assert_eq!(
            error.into_error(),
            Error::new(11, "b: full").with_details(
                "asked b: ADD of c1 eth0 on network net\n10.0.0.0/24\nundone by DEL: a\n\
                 not undone, DEL failed: b: died (y)"
            )
        );
    }

    #[test]
    fn several_failures_are_one_error_with_the_first_ones_code() {
        let error = Error::all_as_one([
            failed("a", "DEL of c1 eth0 on network net", 5, "x", "").into_error(),
            failed("b", "GC on network net", 7, "y", "why").into_error(),
        ]);
        assert_eq!(
            error,
            Err(Error::new(5, "a: x; b: y").with_details(
                "asked a: DEL of c1 eth0 on network net\nasked b: GC on network net\nwhy"
            ))
        );
        assert_eq!(Error::all_as_one([]), Ok(()));
    }
}

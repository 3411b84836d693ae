//! What `ipam-delegated` says when delegates fail: one error that names them.

use cni::{DelegateName, Error};

/// A delegate that failed, and what it said.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) delegate: DelegateName,
    pub(crate) error: Error,
}

impl Failed {
    /// The delegate's error with its name in front.
    pub(crate) fn into_error(self) -> Error {
        Error {
            msg: format!("{}: {}", self.delegate, self.error.msg),
            ..self.error
        }
    }
}

/// The error of an ADD: the delegate's that failed, and what went wrong when
/// it was undone.
pub(crate) fn of_add(failed: Failed, rollback: Vec<Failed>) -> Error {
    let mut error = failed.into_error();
    for failed in rollback {
        add_line(
            &mut error.details,
            &format!("rollback: {}", in_one(failed.into_error())),
        );
    }
    error
}

/// The error of a command that goes on past failures: the code of the first,
/// the messages of all. `None` if there was none.
pub(crate) fn of_all(failures: Vec<Failed>) -> Option<Error> {
    let mut errors = failures.into_iter().map(Failed::into_error);
    let mut all = errors.next()?;
    for error in errors {
        all.msg = format!("{}; {}", all.msg, error.msg);
        add_line(&mut all.details, &error.details);
    }
    Some(all)
}

fn in_one(error: Error) -> String {
    let mut text = error.msg;
    add_line(&mut text, &error.details);
    text
}

fn add_line(text: &mut String, line: &str) {
    if !text.is_empty() && !line.is_empty() {
        text.push('\n');
    }
    text.push_str(line);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(delegate: &str, code: u64, msg: &str, details: &str) -> Failed {
        Failed {
            delegate: delegate.parse().unwrap(),
            error: Error::new(code, msg).with_details(details),
        }
    }

    #[test]
    fn an_add_fails_with_the_delegates_error_and_tells_of_the_rollback() {
        let error = of_add(
            failed("b", 11, "full", "10.0.0.0/24"),
            vec![failed("a", 5, "lost", "disk"), failed("b", 102, "died", "")],
        );
        assert_eq!(
            error,
            Error::new(11, "b: full")
                .with_details("10.0.0.0/24\nrollback: a: lost\ndisk\nrollback: b: died")
        );
    }

    #[test]
    fn several_failures_are_one_error_with_the_first_ones_code() {
        let error = of_all(vec![failed("a", 5, "x", ""), failed("b", 7, "y", "why")]);
        assert_eq!(error, Some(Error::new(5, "a: x; b: y").with_details("why")));
        assert_eq!(of_all(vec![]), None);
    }
}

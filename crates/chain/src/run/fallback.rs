//! Second attempt of a step that has failed with the configuration of the ADD: with today's
//! configuration.

use cni::{Command, Error, IpamResult, NetworkConfig, code};
use serde_json::value::RawValue;

use crate::call::outcome::{Failure, Kind, Outcome, Reason};
use crate::record::attachment_record::RecordedDelegate;
use crate::run::prev_result::{checkable, completed};
use crate::run::step::Step;

/// Calls a delegate with a command, a configuration and `prevResult`.
type Run<'a> = &'a mut dyn FnMut(Command, &NetworkConfig, Option<&RawValue>) -> Outcome;

/// Runs a step that has failed once more, with the fallback: that of a selector, which holds
/// nothing, or of a delegate that confirms that the fallback leads to the same addresses.
/// `None` if there is no second attempt, or if it fails, too.
pub(crate) fn attempt(
    step: &Step<'_>,
    command: Command,
    prev_result: Option<&RawValue>,
    failure: &Failure,
    run: Run<'_>,
) -> Option<Outcome> {
    let (fallback, recorded) = (step.fallback?, step.recorded?);
    if is_final(failure)
        || !recorded.holds_nothing && !leads_to(&recorded, fallback, prev_result, run)
    {
        return None;
    }
    let second = run(command, fallback, prev_result);
    (!matches!(second, Outcome::Failed(_))).then_some(second)
}

/// True if the same call with another configuration would be of no use, or take too long.
fn is_final(failure: &Failure) -> bool {
    let is_useless = matches!(
        failure.kind,
        Kind::Garbled | Kind::Terminated(Reason::TimedOut(_), _)
    );
    is_useless || failure.is_not_run()
}

/// True if CHECK with this configuration proves that it leads to the place where the
/// recorded delegate has reserved: the attachment has its addresses there. A success of
/// DEL is no proof, since DEL succeeds where there is nothing.
fn leads_to(
    recorded: &RecordedDelegate<'_>,
    config: &NetworkConfig,
    prev_result: Option<&RawValue>,
    run: Run<'_>,
) -> bool {
    let Some(result) = recorded.result else {
        return false;
    };
    let prev_result = completed(prev_result, result);
    let result = IpamResult::read("result", &prev_result);
    result.is_ok_and(|result| !result.ips.is_empty())
        && !matches!(
            run(Command::Check, &checkable(config), Some(&prev_result)),
            Outcome::Failed(_)
        )
}

/// The error of a delegate that was only asked with the configuration of the ADD, from which
/// today's differs.
pub(crate) fn not_asked(error: Error) -> Error {
    let why = format!(
        "asked with the configuration of the ADD (code {}); today's configuration differs, and \
         is not proven to lead to the same reservations",
        error.code
    );
    Error {
        code: code::TRY_AGAIN_LATER,
        ..error
    }
    .with_line(&why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leftover_processes::Left;
    use std::time::Duration;

    #[test]
    fn a_delegate_that_did_not_run_or_did_not_answer_is_not_tried_again() {
        let late = Reason::TimedOut(Duration::from_secs(1));
        for failure in [
            Failure::terminated(late, Left::Nothing, ""),
            Failure::garbled("no"),
            Failure::new(Kind::NotFound, code::DELEGATE_NOT_FOUND, "none"),
        ] {
            assert!(is_final(&failure), "{failure:?}");
        }
        for failure in [
            Failure::printed(Error::new(code::IO, "no"), ""),
            Failure::silent(),
            Failure::new(Kind::Died, code::DELEGATE_KILLED, "died"),
        ] {
            assert!(!is_final(&failure), "{failure:?}");
        }
    }
}

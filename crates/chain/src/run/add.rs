//! ADD of the delegates in order, and its rollback.

use std::io;

use cni::{Attachment, Command, DelegateName, Error, IpamResult, JsonOutput, NetworkConfig, code};

use crate::call::{CommonVersions, DelegateCall, Delegates, Failure, Kind, Outcome};
use crate::record::{Line, RecordFile};
use crate::run::merge::{answer, merge};
use crate::run::steps::{self, FailedDelegate, Step};
use crate::settings::AnswerMode;

/// The run of an ADD.
pub(crate) struct Addition<'r, 'p> {
    pub(crate) delegates: Delegates<'r, 'p>,
    /// The names of the delegates, in order: at least one.
    pub(crate) names: &'r [DelegateName],
    pub(crate) answer: AnswerMode,
    /// The configuration of the delegates, without `prevResult`.
    pub(crate) config: &'r NetworkConfig,
    pub(crate) attachment: &'r Attachment,
    /// The record, which gets each result.
    pub(crate) file: Option<&'r RecordFile>,
    pub(crate) versions: CommonVersions,
}

/// An ADD that has failed and has been undone.
#[derive(Debug)]
pub(crate) struct FailedAdd {
    /// The failed delegate's error, and what was undone.
    pub(crate) error: Error,
    /// True if a delegate may still hold an address.
    pub(crate) may_hold: bool,
}

impl Addition<'_, '_> {
    /// Runs the delegates. Each receives the result of the one before it, or the merged results
    /// of all before it. The last result, without what is for delegates only, is the chain's answer,
    /// which `deliver` receives.
    /// If a delegate fails, it and all before it are undone. If `deliver` fails, all are undone.
    pub(crate) fn run(
        mut self,
        deliver: impl FnOnce(&JsonOutput) -> io::Result<()>,
    ) -> Result<JsonOutput, Box<FailedAdd>> {
        let mut prev_result: Option<JsonOutput> = None;
        for (i, name) in self.names.iter().enumerate() {
            match self.result_of(name, prev_result.as_ref()) {
                Ok(result) => {
                    self.note(&result, i + 1 == self.names.len());
                    prev_result = Some(result);
                }
                Err(failure) => {
                    let cause = Cause::Delegate(i, failure);
                    return Err(self.roll_back(cause, prev_result.as_ref()));
                }
            }
        }
        let answer = answer(&prev_result.expect("a chain has at least one delegate"));
        let delivered = if self.delegates.is_cancelled() {
            // The caller may have ended.
            Err(Error::new(code::INTERRUPTED, "the call was cancelled"))
        } else {
            deliver(&answer)
                .map_err(|error| Error::io("the chain's result could not be delivered", error))
        };
        match delivered {
            Ok(()) => Ok(answer),
            Err(error) => Err(self.roll_back(Cause::Undelivered(error), Some(&answer))),
        }
    }

    /// Runs a delegate with ADD. Its result, or the merged one, is the next one's `prevResult`.
    fn result_of(
        &mut self,
        name: &DelegateName,
        prev_result: Option<&JsonOutput>,
    ) -> Result<JsonOutput, Failure> {
        let raw = prev_result.map(JsonOutput::json);
        let call = DelegateCall::new(name, Command::Add, self.config, raw);
        let result = match self.delegates.run(&call, &mut self.versions) {
            Outcome::Result(output) => verified(output)?,
            Outcome::Nothing => return Err(Failure::silent()),
            Outcome::Failed(failure) => return Err(failure),
        };
        match prev_result {
            Some(earlier) if self.answer == AnswerMode::Merge => {
                merge(earlier, &result, self.config.version())
            }
            _ => Ok(result),
        }
    }

    /// Records the result of a delegate, and the end of the ADD with the last one.
    fn note(&self, result: &JsonOutput, is_last: bool) {
        let mut new = vec![Line::Result(result.json().to_owned())];
        if is_last {
            new.push(Line::Added {});
        }
        if let Some(file) = self.file {
            file.append(&new);
        }
    }

    /// Undoes the ADD: runs all delegates that may hold something of it with DEL. The first
    /// receives this `prevResult`, that of the failed one.
    fn roll_back(&mut self, cause: Cause, prev_result: Option<&JsonOutput>) -> Box<FailedAdd> {
        let to_undo = cause.to_undo(self.names);
        let steps: Vec<Step<'_>> = to_undo
            .iter()
            .map(|name| Step::new(name, self.config))
            .collect();
        let not_undone = steps::run(
            &self.delegates.rolling_back(),
            &mut self.versions,
            Command::Del,
            Some(self.attachment),
            &steps,
            prev_result.map(|output| output.json().to_owned()),
        );
        let may_hold = cause.may_hold(self.names, &not_undone);
        let error = self.error(cause, &to_undo, not_undone);
        Box::new(FailedAdd { error, may_hold })
    }

    /// The error of the ADD: its cause, and how far it was undone.
    fn error(
        &self,
        cause: Cause,
        to_undo: &[&DelegateName],
        mut not_undone: Vec<FailedDelegate>,
    ) -> Error {
        let is_undone = |name: &DelegateName| !not_undone.iter().any(|of| of.delegate == *name);
        let undone = to_undo.iter().filter(|name| is_undone(name));
        let undone: Vec<&str> = undone.map(|name| name.as_str()).collect();
        let mut error = match cause {
            Cause::Delegate(place, failure) => {
                let name = &self.names[place];
                if failure.refuses_input() {
                    // It refuses the DEL, too, and has reserved nothing.
                    not_undone.retain(|not_undone| not_undone.delegate != *name);
                }
                let attachment = Some(self.attachment);
                let error = failure.to_error();
                FailedDelegate::new(name, Command::Add, attachment, self.config, error).into_error()
            }
            Cause::Undelivered(error) => error,
        };
        if !undone.is_empty() {
            error = error.with_line(&format!("undone by DEL: {}", undone.join(", ")));
        }
        for failed in not_undone {
            error = error.with_line(&format!("not undone, DEL failed: {failed}"));
        }
        error
    }
}

/// Why an ADD is undone.
enum Cause {
    /// The delegate at this place has failed.
    Delegate(usize, Failure),
    /// All delegates have succeeded, and the caller doesn't get the answer, for this reason.
    Undelivered(Error),
}

impl Cause {
    /// The delegates that a rollback runs with DEL: those up to the failed one, and the failed one
    /// unless it has never run. One that has refused with 110 holds addresses of an earlier ADD,
    /// which is in use; a DEL would release these, whichever of its places in the chain it has.
    fn to_undo<'n>(&self, names: &'n [DelegateName]) -> Vec<&'n DelegateName> {
        let Self::Delegate(place, failure) = self else {
            return names.iter().collect();
        };
        let has_run = !failure.is_not_run();
        let run = names[..place + usize::from(has_run)].iter();
        run.filter(|name| !failure.is_refusal() || **name != names[*place])
            .collect()
    }

    /// True if a delegate may still hold an address, after these DELs have failed.
    fn may_hold(&self, names: &[DelegateName], not_undone: &[FailedDelegate]) -> bool {
        let (failed, held) = match self {
            Self::Delegate(place, failure) => {
                let name = &names[*place];
                (Some(name), held_by(name, failure))
            }
            Self::Undelivered(_) => (None, Held::UnlessUndone),
        };
        let is_holder = |name: &DelegateName| {
            !name.holds_nothing() && (held != Held::Nothing || failed != Some(name))
        };
        let mut not_undone = not_undone.iter();
        held == Held::Unknown || not_undone.any(|of| is_holder(&of.delegate))
    }
}

/// The result, if a main plugin can read it: one that can't doesn't undo the ADD.
fn verified(output: JsonOutput) -> Result<JsonOutput, Failure> {
    match IpamResult::verify_types("result", output.json()) {
        Ok(()) => Ok(output),
        Err(error) => Err(Failure::no_result(&output, &error.msg)),
    }
}

/// What a delegate may hold whose ADD has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    /// It has reserved no address.
    Nothing,
    /// An address, unless its DEL in the rollback succeeds.
    UnlessUndone,
    /// An address, even if its DEL in the rollback succeeds.
    Unknown,
}

/// Tells whether a delegate whose ADD has failed may hold an address of it. A delegate that was
/// not started doesn't. Neither does one that has refused its input or the attachment (code 110),
/// nor one that holds nothing by its role.
fn held_by(name: &DelegateName, failure: &Failure) -> Held {
    match failure.kind {
        _ if name.holds_nothing() => Held::Nothing,
        Kind::Error => {
            let has_refused = failure.refuses_input() || failure.is_refusal();
            match failure.error.code {
                _ if has_refused => Held::Nothing,
                code::UNKNOWN_OUTCOME | code::INTERNAL => Held::Unknown,
                _ => Held::UnlessUndone,
            }
        }
        _ if failure.is_not_run() => Held::Nothing,
        _ if failure.is_killed() => Held::Unknown,
        _ => Held::UnlessUndone,
    }
}

#[cfg(test)]
mod tests;

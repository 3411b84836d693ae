//! ADD of the delegates in order, and its rollback.

use std::io;

use cni::{Command, DelegateName, Error, IpamResult, JsonOutput, NetworkConfig, code};

use crate::call::{DelegateCall, Delegates, Failure, Outcome};
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
    /// The record, which gets each result.
    pub(crate) file: Option<&'r RecordFile>,
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
        self,
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
        &self,
        name: &DelegateName,
        prev_result: Option<&JsonOutput>,
    ) -> Result<JsonOutput, Failure> {
        let raw = prev_result.map(JsonOutput::json);
        let call = DelegateCall::new(name, Command::Add, self.config, raw);
        let result = match self.delegates.run(&call) {
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
    fn roll_back(&self, cause: Cause, prev_result: Option<&JsonOutput>) -> Box<FailedAdd> {
        let to_undo = cause.to_undo(self.names);
        let steps: Vec<Step<'_>> = to_undo
            .iter()
            .map(|name| Step::new(name, self.config))
            .collect();
        let delegates = self.delegates.rolling_back();
        let prev_result = prev_result.map(|output| output.json().to_owned());
        let mut not_undone = steps::run(&delegates, Command::Del, &steps, prev_result);
        let is_undone = |name: &DelegateName| !not_undone.iter().any(|of| of.delegate == *name);
        let undone = to_undo.iter().filter(|name| is_undone(name));
        let undone: Vec<&str> = undone.map(|name| name.as_str()).collect();
        not_undone.retain(|of| !cause.is_refused_by(self.names, &of.delegate));
        let may_hold = cause.may_hold(self.names, &not_undone);
        let mut error = self.error(cause);
        if !undone.is_empty() {
            error = error.with_line(&format!("undone by DEL: {}", undone.join(", ")));
        }
        for failed in not_undone {
            error = error.with_line(&format!("not undone, DEL failed: {failed}"));
        }
        Box::new(FailedAdd { error, may_hold })
    }

    /// The error of the ADD, without its rollback.
    fn error(&self, cause: Cause) -> Error {
        match cause {
            Cause::Delegate(place, failure) => {
                let name = &self.names[place];
                let call = DelegateCall::new(name, Command::Add, self.config, None);
                FailedDelegate::new(&self.delegates, &call, failure.error).into_error()
            }
            Cause::Undelivered(error) => error,
        }
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

    /// True if this delegate has failed by refusing its input: it refuses the DEL, too, and has
    /// reserved nothing.
    fn is_refused_by(&self, names: &[DelegateName], name: &DelegateName) -> bool {
        matches!(self, Self::Delegate(place, failure)
            if failure.refuses_input() && names[*place] == *name)
    }

    /// True if a delegate may still hold an address, after these DELs have failed.
    fn may_hold(&self, names: &[DelegateName], not_undone: &[FailedDelegate]) -> bool {
        let is_unknown = matches!(self, Self::Delegate(place, failure)
            if failure.is_outcome_unknown() && !names[*place].holds_nothing());
        let is_holder = |of: &FailedDelegate| !of.delegate.holds_nothing();
        is_unknown || not_undone.iter().any(is_holder)
    }
}

/// The result, if a main plugin can read it: one that can't doesn't undo the ADD.
fn verified(output: JsonOutput) -> Result<JsonOutput, Failure> {
    match IpamResult::verify_types("result", output.json()) {
        Ok(()) => Ok(output),
        Err(error) => Err(Failure::no_result(&output, &error.msg)),
    }
}

#[cfg(test)]
mod tests;

//! ADD of an attachment: runs the delegates in order, records how far it has got, and undoes
//! an ADD that has failed.

use std::io;

use cni::{Attachment, Command, DelegateName, Error, IpamResult, JsonOutput, NetworkConfig, code};

use crate::call::{DelegateCall, Failure, InstalledDelegates, Kind, Outcome};
use crate::chain::Chain;
use crate::record::{AttachmentRecord, Intent, Line, RecordFile};
use crate::run::earlier_add;
use crate::run::merge::{answer, merge};
use crate::run::steps::{self, FailedDelegate, OnFailure, Step};
use crate::settings::AnswerMode;

/// The reason of an ADD that must be recorded and isn't.
const NOT_RECORDED: &str = "the attachment can't be recorded";

impl Chain<'_> {
    /// ADD: runs the delegates in order. The result is the last one's, as it came, or,
    /// with `"result": "merge"`, all of theirs; without `pools` and `facts`.
    ///
    /// # Errors
    ///
    /// The failed delegate's, with its name, after all up to it have been undone; code
    /// 110 if the attachment is on the network already; code 106 if it was cancelled.
    pub fn add(&self, attachment: &Attachment) -> Result<JsonOutput, Error> {
        self.add_and(attachment, |_| Ok(()))
    }

    /// ADD, which also delivers the result: `deliver` receives it while the attachment is
    /// still locked. If `deliver` fails, the ADD is undone.
    ///
    /// # Errors
    ///
    /// As [`Self::add`]; code 5 if the result could not be delivered.
    pub fn add_and(
        &self,
        attachment: &Attachment,
        deliver: impl FnOnce(&JsonOutput) -> io::Result<()>,
    ) -> Result<JsonOutput, Error> {
        let record_file = earlier_add::clear(self, attachment)?;
        let file = record_file.as_ref();
        let delegates = &self.settings.delegates;
        // A main plugin that is chained behind another one passes its own: what the other plugins
        // of the network have made, which isn't this chain's.
        let config = self.config.without_prev_result();
        let intent = Intent::new(&config, attachment, delegates, self.environment);
        let record = AttachmentRecord::new(intent.clone());
        let mut first = vec![Line::Adding(Box::new(intent))];
        first.extend(self.caller_line.clone().map(Line::Caller));
        // Before the first delegate runs, so that a DEL or a GC finds what was done, whatever
        // happens to this process.
        if let Some(file) = file {
            file.append(&first);
        }
        let must_be_recorded = self.caller_line.is_some();
        let is_whole = || file.is_some_and(RecordFile::is_whole);
        if must_be_recorded && !is_whole() {
            file.map(RecordFile::remove);
            return Err(Error::new(code::IO, NOT_RECORDED));
        }
        let mut delegates = InstalledDelegates::new(self, self.environment.clone())
            .holding(file)
            .cancelled_by(self.cancellation);
        let addition = Addition {
            delegates: &mut delegates,
            config: &config,
            attachment,
            record,
            file,
        };
        let added = addition.run(|result| {
            // By a record that lacks lines, the next ADD or a GC would undo this one.
            if !is_whole() && (must_be_recorded || !file.is_none_or(RecordFile::remove)) {
                return Err(io::Error::other(NOT_RECORDED));
            }
            deliver(result)
        });
        added.map_err(|failed| {
            if !failed.may_hold {
                file.map(RecordFile::remove);
            }
            self.with_record(attachment, failed.error)
        })
    }
}

/// The run of an ADD.
pub(crate) struct Addition<'r, 'a, 'b> {
    pub(crate) delegates: &'r mut InstalledDelegates<'a, 'b>,
    /// The configuration of the delegates, without `prevResult`.
    pub(crate) config: &'r NetworkConfig,
    pub(crate) attachment: &'r Attachment,
    /// Notes each result, as the file does.
    pub(crate) record: AttachmentRecord,
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

impl Addition<'_, '_, '_> {
    /// Runs the delegates. Each receives the result of the one before it, or the merged results
    /// of all before it. The last result, without what is for delegates only, is the chain's answer,
    /// which `deliver` receives.
    /// If a delegate fails, it and all before it are undone. If `deliver` fails, all are undone.
    pub(crate) fn run(
        mut self,
        deliver: impl FnOnce(&JsonOutput) -> io::Result<()>,
    ) -> Result<JsonOutput, Box<FailedAdd>> {
        let (config, settings) = (self.config, &self.delegates.chain.settings);
        let is_merged = settings.answer == AnswerMode::Merge;
        let last = settings.delegates.len() - 1;
        let mut prev_result: Option<JsonOutput> = None;
        for (i, name) in settings.delegates.iter().enumerate() {
            let raw = prev_result.as_ref().map(JsonOutput::json);
            let call = DelegateCall::new(name, Command::Add, config, raw);
            let result = match self.delegates.run(&call) {
                Outcome::Result(output) => verified(output).and_then(|output| match &prev_result {
                    Some(prev_result) if is_merged => merge(prev_result, &output, config.version()),
                    _ => Ok(output),
                }),
                Outcome::Nothing => Err(Failure::silent()),
                Outcome::Failed(failure) => Err(failure),
            };
            match result {
                Ok(result) => {
                    self.note(&result, i == last);
                    prev_result = Some(result);
                }
                Err(failure) => return Err(self.roll_back(i, prev_result.as_ref(), &failure)),
            }
        }
        let answer = answer(&prev_result.expect("a chain has at least one delegate"));
        let undelivered = if self.delegates.is_cancelled() {
            // The caller may have ended.
            Some(Failure::cancelled())
        } else {
            deliver(&answer).err().map(|error| {
                let msg = format!("the chain's result could not be delivered: {error}");
                Failure::new(Kind::NoAnswer, code::IO, msg)
            })
        };
        match undelivered {
            None => Ok(answer),
            Some(failure) => Err(self.roll_back(last, Some(&answer), &failure)),
        }
    }

    /// Records the result of a delegate, and the end of the ADD with the last one.
    fn note(&mut self, result: &JsonOutput, is_last: bool) {
        let mut new = vec![Line::Result(result.json().to_owned())];
        if is_last {
            new.push(Line::Added {});
        }
        if let Some(file) = self.file {
            file.append(&new);
        }
        for line in new {
            let noted = self.record.note(line);
            debug_assert_eq!(noted, Ok(()));
        }
    }

    /// Runs all delegates up to the failed one with DEL. The first receives the
    /// `prevResult` of the failed one.
    fn roll_back(
        &mut self,
        failed: usize,
        prev_result: Option<&JsonOutput>,
        failure: &Failure,
    ) -> Box<FailedAdd> {
        let (config, names) = (self.config, &self.delegates.chain.settings.delegates);
        let name = &names[failed];
        let to_undo = to_undo(names, failed, failure);
        let steps: Vec<Step<'_>> = to_undo.iter().map(|name| Step::new(name, config)).collect();
        self.delegates.begin_rollback();
        let mut not_undone = steps::run(
            self.delegates,
            Command::Del,
            Some(self.attachment),
            &steps,
            prev_result.map(|output| output.json().to_owned()),
            OnFailure::Continue,
        );
        let held = held_by(name, failure);
        let is_holder = |not_undone: &FailedDelegate| {
            let name = &not_undone.delegate;
            !name.holds_nothing() && (*name != names[failed] || held != Held::Nothing)
        };
        let may_hold = held == Held::Unknown || not_undone.iter().any(is_holder);

        let has_failed = |name: &DelegateName| not_undone.iter().any(|of| of.delegate == *name);
        let mut undone: Vec<&str> = Vec::new();
        for name in to_undo.iter().filter(|name| !has_failed(name)) {
            undone.push(name.as_str());
        }
        let error = failure.to_error();
        let add = FailedDelegate::new(name, Command::Add, Some(self.attachment), config, error);
        let mut error = add.into_error();
        if !undone.is_empty() {
            error = error.with_line(&format!("undone by DEL: {}", undone.join(", ")));
        }
        if failure.refuses_input() {
            // It refuses the DEL, too, and has reserved nothing.
            not_undone.retain(|not_undone| not_undone.delegate != *name);
        }
        for failed in not_undone {
            error = error.with_line(&format!("not undone, DEL failed: {failed}"));
        }
        Box::new(FailedAdd { error, may_hold })
    }
}

/// The result, if a main plugin can read it: one that can't doesn't undo the ADD.
fn verified(output: JsonOutput) -> Result<JsonOutput, Failure> {
    match IpamResult::verify_types("result", output.json()) {
        Ok(()) => Ok(output),
        Err(error) => Err(Failure::no_result(&output, &error.msg)),
    }
}

/// The delegates that a rollback runs with DEL: those up to the failed one, and the failed one
/// unless it has never run. One that has refused with 110 holds addresses of an earlier ADD,
/// which is in use; a DEL would release these, whichever of its places in the chain it has.
fn to_undo<'n>(
    names: &'n [DelegateName],
    failed: usize,
    failure: &Failure,
) -> Vec<&'n DelegateName> {
    let has_run = !failure.is_not_run();
    let run = names[..failed + usize::from(has_run)].iter();
    run.filter(|name| !failure.is_refusal() || **name != names[failed])
        .collect()
}

/// What a delegate may hold whose ADD has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    /// It has reserved no address.
    Nothing,
    /// An address, unless its DEL in the rollback succeeds.
    UnlessUndone,
    /// An address, even if its DEL in the rollback succeeds, which searches for nothing.
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

//! ADD of an attachment: runs the delegates in order, records how far it has got, and undoes
//! an ADD that has failed.

use std::io;

use cni::{Attachment, Command, DelegateName, Error, JsonOutput, TraceContext, code};
use serde_json::value::RawValue;

use crate::call::delegate_call::DelegateCall;
use crate::call::installed_delegates::InstalledDelegates;
use crate::call::outcome::{Failure, Kind, Outcome};
use crate::chain::Chain;
use crate::leftover_processes::Left;
use crate::record::attachment_record::AttachmentRecord;
use crate::record::file::RecordFile;
use crate::record::line::{Intent, Line};
use crate::run::earlier_add::{self, Cleared};
use crate::run::failed_delegate::{FailedAdd, FailedDelegate};
use crate::run::merge::merge;
use crate::run::step::Step;
use crate::run::steps::{self, OnFailure};
use crate::settings::AnswerMode;

/// The reason of an ADD that must be recorded and isn't.
const NOT_RECORDED: &str = "the attachment can't be recorded";

impl Chain<'_> {
    /// ADD: runs the delegates in order. The result is the last one's, as it came, or,
    /// with `"result": "merge"`, all of theirs.
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
        let Cleared {
            mut file,
            has_undone,
        } = earlier_add::clear(self, attachment)?;
        let intent = self.intent(attachment);
        let mut record = AttachmentRecord::new(intent.clone());
        let mut first = vec![Line::Adding(Box::new(intent))];
        first.extend(self.caller_line.clone().map(Line::Caller));
        // Before the first delegate runs, so that a DEL or a GC finds what was done, whatever
        // happens to this process.
        if let Some(file) = &file {
            file.append(&first);
        }
        let is_missing =
            || self.caller_line.is_some() && !file.as_ref().is_some_and(RecordFile::is_whole);
        if is_missing() {
            if let Some(file) = file {
                file.remove();
            }
            return Err(Error::new(code::IO, NOT_RECORDED));
        }
        let mut delegates = InstalledDelegates::new(self, self.environment.clone())
            .holding(file.as_ref())
            .cancelled_by(self.cancellation);
        let result = delegates.add(
            attachment,
            |result, is_last| {
                let mut new = vec![Line::result(result)];
                if is_last {
                    new.push(Line::Added {});
                }
                if let Some(file) = &file {
                    file.append(&new);
                }
                for line in new {
                    let noted = record.note(line);
                    debug_assert_eq!(noted, Ok(()));
                }
            },
            |result| match is_missing() {
                true => Err(io::Error::other(NOT_RECORDED)),
                false => deliver(result),
            },
        );
        drop(delegates);
        if result.is_ok()
            && let Some(file) = file.take_if(|file| !file.is_whole())
        {
            // By a record that lacks lines, the next ADD would undo this one.
            file.remove();
        }
        result.map_err(|failed| {
            if !may_hold(&record, &failed)
                && let Some(file) = file
                && !file.is_at_work()
            {
                file.remove();
            }
            let error = self.with_record(attachment, failed.into_error());
            if !has_undone {
                return error;
            }
            error.with_line(&format!(
                "an earlier ADD of {attachment}, which was not complete, was undone first"
            ))
        })
    }

    /// The first line of the record.
    fn intent(&self, attachment: &Attachment) -> Intent {
        let delegates = &self.settings.delegates;
        let mut intent = Intent::new(self.config, attachment, delegates, self.id.clone());
        let trace = TraceContext::of_call(self.environment);
        intent.trace = trace.trace_id().to_owned();
        intent.boot = self.boot().map(|boot| boot.id().to_owned());
        intent.netns = self.environment.text("CNI_NETNS");
        intent.args = self.environment.text("CNI_ARGS");
        intent
    }
}

impl InstalledDelegates<'_, '_> {
    /// ADD of one attachment, without its record.
    ///
    /// Each delegate receives the result of the one before it, or the merged results
    /// of all before it. The last result is the chain's answer, which `deliver` receives.
    /// `on_result` receives each result, and true for the last one. If a delegate fails,
    /// it and all before it are undone. If `deliver` fails, all are undone.
    fn add(
        &mut self,
        attachment: &Attachment,
        mut on_result: impl FnMut(&RawValue, bool),
        deliver: impl FnOnce(&JsonOutput) -> io::Result<()>,
    ) -> Result<JsonOutput, Box<FailedAdd>> {
        let Chain {
            config, settings, ..
        } = self.chain;
        let is_merged = settings.answer == AnswerMode::Merged;
        let last = settings.delegates.len() - 1;
        let mut prev_result: Option<JsonOutput> = None;
        for (i, name) in settings.delegates.iter().enumerate() {
            let raw = prev_result.as_ref().map(JsonOutput::json);
            let call = DelegateCall::new(name, Command::Add, config, raw);
            let result = match self.run(&call) {
                Outcome::Result(output) => match &prev_result {
                    Some(prev_result) if is_merged => {
                        merge(prev_result, &output, config.version(), i == last)
                    }
                    _ => Ok(output),
                },
                Outcome::Nothing => Err(Failure::silent()),
                Outcome::Failed(failure) => Err(failure),
            };
            match result {
                Ok(result) => {
                    on_result(result.json(), i == last);
                    prev_result = Some(result);
                }
                Err(failure) => {
                    return Err(self.roll_back(attachment, i, prev_result.as_ref(), &failure));
                }
            }
        }
        let answer = prev_result.expect("a chain has at least one delegate");
        let undelivered = if self.is_cancelled() {
            // The caller may have ended.
            Some(Failure::cancelled(Left::Nothing))
        } else {
            deliver(&answer).err().map(|error| {
                let msg = format!("the chain's result could not be delivered: {error}");
                Failure::new(Kind::NotDelivered, code::IO, msg)
            })
        };
        match undelivered {
            None => Ok(answer),
            Some(failure) => Err(self.roll_back(attachment, last, Some(&answer), &failure)),
        }
    }

    /// Runs all delegates up to the failed one with DEL. The first receives the
    /// `prevResult` of the failed one.
    fn roll_back(
        &mut self,
        attachment: &Attachment,
        failed: usize,
        prev_result: Option<&JsonOutput>,
        failure: &Failure,
    ) -> Box<FailedAdd> {
        let (config, names) = (self.chain.config, &self.chain.settings.delegates);
        let attachment = Some(attachment);
        let may_hold = may_hold_address(&names[failed], failure);
        let has_unterminated = failure.has_unterminated();
        let undone = undone(names, failed, failure);
        let error = failure.to_error();
        let failed = FailedDelegate::new(&names[failed], Command::Add, attachment, config, error);

        self.begin_rollback();
        let steps: Vec<Step<'_>> = undone.iter().map(|name| Step::new(name, config)).collect();
        let prev_result = prev_result.map(|output| output.json().to_owned());
        let goes_on = OnFailure::Continue;
        let del = Command::Del;
        let mut not_undone = steps::run(self, del, attachment, &steps, prev_result, goes_on);
        let is_undone = |name: &&&DelegateName| {
            let mut failed = not_undone.iter();
            failed.all(|failed| failed.delegate != ***name)
        };
        let undone = undone.iter().filter(is_undone).copied().cloned().collect();
        if failed.error.code == code::INVALID_CONFIG {
            // A delegate that refuses its configuration has reserved nothing.
            not_undone.retain(|not_undone| not_undone.delegate != failed.delegate);
        }
        Box::new(FailedAdd {
            failed,
            may_hold,
            has_unterminated,
            undone,
            not_undone,
        })
    }
}

/// The delegates that a rollback runs with DEL: those up to the failed one, and the failed one
/// unless it has never run. One that has refused with 110 holds addresses of an earlier ADD,
/// which is in use; a DEL would release these, whichever of its places in the chain it has.
fn undone<'n>(
    names: &'n [DelegateName],
    failed: usize,
    failure: &Failure,
) -> Vec<&'n DelegateName> {
    let has_run = !failure.is_not_run();
    let run = names[..failed + usize::from(has_run)].iter();
    run.filter(|name| !failure.is_refusal() || **name != names[failed])
        .collect()
}

/// True if a delegate whose ADD has failed may still hold an address of it. A delegate
/// that was not started doesn't. Neither does one that has refused the configuration
/// (code 7) or the attachment (code 110), nor a selector that has printed an error.
fn may_hold_address(name: &DelegateName, failure: &Failure) -> bool {
    match failure.kind {
        Kind::Error => {
            let is_refused = failure.error.code == code::INVALID_CONFIG || failure.is_refusal();
            !is_refused && !name.is_selector()
        }
        _ => !failure.is_not_run(),
    }
}

/// True if a delegate of a failed ADD that could not be undone may hold an address.
fn may_hold(record: &AttachmentRecord, failed: &FailedAdd) -> bool {
    let recorded = record.recorded_delegates();
    let is_selector = |name| {
        let mut delegates = recorded.iter();
        delegates.any(|delegate| delegate.name == name && delegate.holds_nothing)
    };
    failed.has_unterminated
        || failed.not_undone.iter().any(|not_undone| {
            let name = &not_undone.delegate;
            !is_selector(name) && (*name != failed.failed.delegate || failed.may_hold)
        })
}

#[cfg(test)]
mod tests;

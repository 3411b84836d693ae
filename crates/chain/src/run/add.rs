//! ADD of an attachment: runs the chain and records how far it has got.

use std::io;

use cni::{Attachment, Error, JsonOutput, TraceContext, code};

use crate::call::installed_delegates::InstalledDelegates;
use crate::chain::Chain;
use crate::record::attachment_record::AttachmentRecord;
use crate::record::file::RecordFile;
use crate::record::line::{Intent, Line};
use crate::run::earlier_add::{self, Cleared};
use crate::run::failed_delegate::{FailedAdd, after_undoing};
use crate::run::steps::Steps;

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
        let result = Steps::new(&mut delegates, Some(attachment)).add(
            self.config,
            &self.settings.delegates,
            self.settings.answer,
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
            if has_undone {
                after_undoing(error, attachment)
            } else {
                error
            }
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

//! CHECK and STATUS: every delegate until one fails.

use cni::{Attachment, Command, Error};

use crate::call::installed_delegates::InstalledDelegates;
use crate::chain::Chain;
use crate::record::attachment_record::{AttachmentRecord, RecordedDelegate};
use crate::record::folder::Found;
use crate::record::lock;
use crate::run::failed_delegate::first_error;
use crate::run::step::Step;
use crate::run::steps::{self, OnFailure};

impl Chain<'_> {
    /// CHECK: runs the delegates until one fails. A selector's pools are taken from the record
    /// of the ADD, if there is one.
    ///
    /// # Errors
    ///
    /// The failed delegate's; code 7 without `prevResult`; code 11 if it is not known whether
    /// there is a record.
    pub fn check(&self, attachment: &Attachment) -> Result<(), Error> {
        if self.config.raw_prev_result().is_none() {
            return Err(Error::config(
                "prevResult is missing: CHECK compares with it",
            ));
        }
        let record = self.record_of(attachment)?;
        let recorded = record.as_ref().map(AttachmentRecord::recorded_delegates);
        let mut steps = Step::all(&self.settings.delegates, self.config);
        for i in 0..steps.len() {
            let name = steps[i].name;
            // A delegate may be listed more than once.
            let place = steps[..i].iter().filter(|step| step.name == name).count();
            let recorded = recorded.iter().flatten();
            let same = recorded.filter(|delegate| delegate.name == name).nth(place);
            steps[i].selection = same.and_then(RecordedDelegate::selection);
        }
        self.run_until_failure(Command::Check, Some(attachment), &steps)
    }

    /// STATUS: runs the delegates until one fails.
    ///
    /// # Errors
    ///
    /// The failed delegate's.
    pub fn status(&self) -> Result<(), Error> {
        let steps = Step::all(&self.settings.delegates, self.config);
        self.run_until_failure(Command::Status, None, &steps)
    }

    /// The record of an attachment, read without its lock: CHECK changes nothing. `None` if
    /// there is none that can be used.
    fn record_of(&self, attachment: &Attachment) -> Result<Option<AttachmentRecord>, Error> {
        let unknown = |error| lock::unknown(&self.records.file(attachment), &error);
        let Found::Record(file) = self.records.open(attachment).map_err(unknown)? else {
            return Ok(None);
        };
        let content = self.records.read(&file, attachment).map_err(unknown)?;
        Ok(content.and_then(Result::ok))
    }

    fn run_until_failure(
        &self,
        command: Command,
        attachment: Option<&Attachment>,
        steps: &[Step<'_>],
    ) -> Result<(), Error> {
        let mut delegates = InstalledDelegates::new(self, self.environment.clone());
        let delegates = &mut delegates;
        let failed = steps::run(delegates, command, attachment, steps, None, OnFailure::Stop);
        first_error(failed)
    }
}

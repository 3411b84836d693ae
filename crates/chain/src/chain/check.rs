//! Commands that change nothing: CHECK, STATUS, and the dry run of a chain's selectors.

use cni::{Attachment, Command, DelegateName, Error, code};

use crate::call::{DelegateCall, Outcome};
use crate::chain::Chain;
use crate::record::{AttachmentRecord, Lookup, RecordedDelegate, lock};
use crate::run::steps::{self, Step};

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
        let recorded = record.iter().flat_map(|record| &record.delegates);
        let mut recorded: Vec<&RecordedDelegate> = recorded.collect();
        let mut steps = Step::all(&self.settings.delegates, &self.config);
        for step in &mut steps {
            // A delegate may be listed more than once.
            let same = recorded.iter().position(|of| of.name == *step.name);
            step.recorded = same.map(|at| recorded.remove(at));
        }
        let delegates = self.delegates(self.environment.clone(), None);
        Error::all_as_one(steps::errors(&delegates, Command::Check, &steps, None))
    }

    /// STATUS: runs the delegates until one fails.
    ///
    /// # Errors
    ///
    /// The failed delegate's; code 50 if the records can't be read.
    pub fn status(&self) -> Result<(), Error> {
        self.records.verify().map_err(|error| {
            let path = self.records.folder.display();
            Error::new(code::UNAVAILABLE, format!("records in {path}: {error}"))
        })?;
        let steps = Step::all(&self.settings.delegates, &self.config);
        let delegates = self.delegates(self.environment.clone(), None);
        Error::all_as_one(steps::errors(&delegates, Command::Status, &steps, None))
    }

    /// The record of an attachment, read without its lock: CHECK changes nothing. `None` if
    /// there is none that can be used.
    fn record_of(&self, attachment: &Attachment) -> Result<Option<AttachmentRecord>, Error> {
        let unknown = |error| lock::unknown(&self.records.file(attachment), &error);
        let Lookup::Found(file) = self.records.open(attachment).map_err(unknown)? else {
            return Ok(None);
        };
        let content = self.records.read(&file, attachment).map_err(unknown)?;
        Ok(content.and_then(Result::ok))
    }

    /// Runs ADD of the delegates, in order, up to the first that `runs` refuses or that
    /// fails; returns those that ran, each with its outcome. Nothing is recorded and
    /// nothing undone: only delegates that hold nothing may run.
    pub fn dry_run(&self, runs: impl Fn(&DelegateName) -> bool) -> Vec<(DelegateName, Outcome)> {
        let delegates = self.delegates(self.environment.clone(), None);
        let config = self.config.without_prev_result();
        let mut ran: Vec<(DelegateName, Outcome)> = Vec::new();
        let names = self.settings.delegates.iter();
        for name in names.take_while(|name| runs(name)) {
            let prev_result = match ran.last() {
                None => None,
                Some((_, Outcome::Result(output))) => Some(output.json()),
                Some(_) => break,
            };
            let call = DelegateCall::new(name, Command::Add, &config, prev_result);
            let outcome = delegates.run(&call);
            ran.push((name.clone(), outcome));
        }
        ran
    }
}

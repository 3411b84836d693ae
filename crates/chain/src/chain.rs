//! The chain of one network, as a front end uses it.

use std::io;

use cni::{Attachment, Cancellation, DelegateName, Environment, Error, JsonOutput, NetworkConfig};
use serde_json::value::RawValue;

use crate::context::Context;
use crate::event::Observer;
use crate::overtime::Overtime;
use crate::plugins::Plugins;
use crate::record::Record;
use crate::release::{Released, WhenBusy};
use crate::settings::Settings;
use crate::tools::AttachmentRecord;
use crate::{Outcome, add, caller_line, check, del, dry_run, failure, gc, recursion, release};

/// A chain: the delegates of a network configuration.
pub struct Chain<'a>(Context<'a>);

impl<'a> Chain<'a> {
    /// Reads the settings of the chain.
    ///
    /// Delegates get this environment, with `CNI_COMMAND` set to their command.
    ///
    /// # Errors
    ///
    /// Code 7 for a wrong setting, and for a chain that would call itself.
    pub fn new(
        config: &'a NetworkConfig,
        environment: &'a Environment,
        plugins: Plugins<'a>,
    ) -> Result<Self, Error> {
        let settings = Settings::read(config, environment)?;
        Self::with_settings(settings, config, environment, plugins)
    }

    /// Reads the settings of the chain for a DEL: a wrong setting is logged and ignored, so
    /// that the attachment is undone by its record in spite of it.
    ///
    /// # Errors
    ///
    /// Code 7 for a chain that would call itself.
    pub fn for_del(
        config: &'a NetworkConfig,
        environment: &'a Environment,
        plugins: Plugins<'a>,
    ) -> Result<Self, Error> {
        let settings = Settings::read_leniently(config, environment);
        Self::with_settings(settings, config, environment, plugins)
    }

    fn with_settings(
        settings: Settings,
        config: &'a NetworkConfig,
        environment: &'a Environment,
        plugins: Plugins<'a>,
    ) -> Result<Self, Error> {
        recursion::refuse(environment, &settings.delegates, &plugins)?;
        Ok(Self(Context::new(settings, config, environment, plugins)))
    }

    /// The same chain, with a cancellation of its ADD.
    #[must_use]
    pub fn cancelled_by(mut self, cancellation: Option<&'a dyn Cancellation>) -> Self {
        self.0.cancellation = cancellation;
        self
    }

    /// The same chain, with one bound for all delegates of a release: at the deadline, the
    /// running one is terminated, and no further one is started.
    #[must_use]
    pub fn released_until(mut self, deadline: &'a dyn Cancellation) -> Self {
        self.0.deadline = Some(deadline);
        self.0.overtime = Overtime::new(true);
        self
    }

    /// The same chain, with an observer of its events.
    #[must_use]
    pub fn observed_by(mut self, observer: &'a dyn Observer) -> Self {
        self.0.observer = Some(observer);
        self
    }

    /// The same chain, in a process that does nothing else and is the subreaper of its
    /// descendants (`PR_SET_CHILD_SUBREAPER`), if `owns` is true. Then what its delegates
    /// leave behind, except daemons, is terminated when they fail, and at the end of the call.
    ///
    /// In any other process, only a delegate's process group is terminated.
    #[must_use]
    pub fn owning_its_process(mut self, owns: bool) -> Self {
        self.0.owns_process = owns;
        self
    }

    /// The same chain, whose ADD writes this line of the caller into the attachment's record,
    /// together with the intent, before the first delegate runs. The caller reads its lines
    /// back from [`AttachmentRecord::caller_lines`], as long as the record exists: until all
    /// delegates have released what they hold.
    ///
    /// An ADD with such a line fails if it can't be recorded. Without one, it is only logged
    /// that the record can't be written.
    #[must_use]
    pub fn with_caller_line(mut self, line: Box<RawValue>) -> Self {
        self.0.caller_line = Some(line);
        self
    }

    /// Appends a line of the caller to the record of an attachment. A call that works on the
    /// attachment is waited for, at most two seconds.
    ///
    /// # Errors
    ///
    /// Code 5 if there is no record, or it can't be written; code 11 if it is not known whether
    /// there is one, or a call still works on the attachment.
    pub fn append_caller_line(
        &self,
        attachment: &Attachment,
        line: Box<RawValue>,
    ) -> Result<(), Error> {
        caller_line::append(&self.0, attachment, line)
    }

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
        add::add(&self.0, attachment, deliver)
    }

    /// DEL: runs the delegates of the ADD, by its record, and those of today's
    /// configuration.
    ///
    /// # Errors
    ///
    /// The first failed delegate's code and all of their messages, after all have run; code 11
    /// if another call, or what it has left, holds the attachment's lock, or if its record
    /// can't be read now.
    pub fn del(&self, attachment: &Attachment) -> Result<(), Error> {
        let environment = |record: Option<&Record>| {
            // A runtime must give DEL what it gave ADD, and some don't.
            let args = record.map(|it| it.intent.args.as_str());
            match args {
                Some(args) if self.0.environment.text("CNI_ARGS").is_empty() => {
                    self.0.environment.clone().with("CNI_ARGS", args)
                }
                _ => self.0.environment.clone(),
            }
        };
        let failed = match del::attachment(&self.0, attachment, self.0.config, environment) {
            Ok(failed) => failed,
            Err(not_begun) => vec![not_begun],
        };
        match failure::of_all(failed) {
            None => Ok(()),
            Some(error) => Err(self.0.with_record(attachment, error)),
        }
    }

    /// DEL for a tool: undoes an attachment by its record, or by today's configuration,
    /// unless a call for it is running, or `refuse` returns a reason. `refuse` gets the
    /// record, and is asked while the attachment is locked.
    ///
    /// # Errors
    ///
    /// As [`Self::del`].
    pub fn release(
        &self,
        attachment: &Attachment,
        when_busy: WhenBusy,
        refuse: impl FnOnce(Option<&AttachmentRecord>) -> Option<String>,
    ) -> Result<Released, Error> {
        release::release(&self.0, attachment, when_busy, refuse)
    }

    /// Runs ADD of the delegates, in order, up to the first that `runs` refuses or that
    /// fails; returns those that ran, each with its outcome. Nothing is recorded and
    /// nothing undone: only selectors, which find and hold nothing, may run.
    pub fn dry_run(
        &self,
        attachment: &Attachment,
        runs: impl Fn(&DelegateName) -> bool,
    ) -> Vec<(DelegateName, Outcome)> {
        dry_run::dry_run(&self.0, attachment, runs)
    }

    /// The delegates of the configuration, in order.
    pub fn delegates(&self) -> &[DelegateName] {
        &self.0.settings.delegates
    }

    /// CHECK: runs the delegates until one fails.
    ///
    /// # Errors
    ///
    /// The failed delegate's; code 7 without `prevResult`.
    pub fn check(&self, attachment: &Attachment) -> Result<(), Error> {
        if self.0.config.raw_prev_result().is_none() {
            return Err(Error::config(
                "prevResult is missing: CHECK compares with it",
            ));
        }
        check::attachment(&self.0, attachment)
    }

    /// STATUS: runs the delegates until one fails.
    ///
    /// # Errors
    ///
    /// The failed delegate's.
    pub fn status(&self) -> Result<(), Error> {
        check::status(&self.0)
    }

    /// GC: undoes each recorded attachment that `cni.dev/valid-attachments` doesn't list,
    /// and runs the delegates.
    ///
    /// # Errors
    ///
    /// Code 7 without that list; else as DEL.
    pub fn gc(&self) -> Result<(), Error> {
        gc::gc(&self.0)
    }
}

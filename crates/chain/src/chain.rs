//! The chain of one network, as a front end uses it.

use std::cell::OnceCell;

use cni::{
    Attachment, Cancellation, Command, DelegateName, Environment, Error, JsonOutput, NetworkConfig,
    boot_id,
};

use crate::event::Observer;
use crate::journal::Journals;
use crate::leftover_processes::CallId;
use crate::overtime::Overtime;
use crate::plugins::{Found, Plugins};
use crate::record::Record;
use crate::record_line::RecordedCall;
use crate::settings::Settings;
use crate::{add, check, del, failure, gc, proc, recursion};

/// A chain: the delegates of a network configuration.
pub struct Chain<'a> {
    pub(crate) config: &'a NetworkConfig,
    pub(crate) environment: &'a Environment,
    pub(crate) settings: Settings,
    pub(crate) plugins: Plugins<'a>,
    pub(crate) journals: Journals,
    pub(crate) cancellation: Option<&'a dyn Cancellation>,
    pub(crate) observer: Option<&'a dyn Observer>,
    /// The ID of this call.
    pub(crate) id: CallId,
    /// Time that the call may take beyond its delegates' own.
    pub(crate) overtime: Overtime,
    boot: OnceCell<Option<String>>,
}

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

    /// The same for a DEL: a wrong setting is logged and ignored, so that a mistake in
    /// the configuration keeps no attachment from being undone by its record.
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
        Ok(Self {
            journals: Journals::new(&settings.state_dir, config.name()),
            overtime: Overtime::new(settings.timeout.is_some()),
            id: CallId::new(),
            settings,
            plugins,
            config,
            environment,
            cancellation: None,
            observer: None,
            boot: OnceCell::new(),
        })
    }

    /// The same chain, whose ADD is cancelled by this.
    #[must_use]
    pub fn cancelled_by(mut self, cancellation: Option<&'a dyn Cancellation>) -> Self {
        self.cancellation = cancellation;
        self
    }

    /// The same chain, which tells this observer what happens.
    #[must_use]
    pub fn observed_by(mut self, observer: &'a dyn Observer) -> Self {
        self.observer = Some(observer);
        self
    }

    /// ADD: runs the delegates in order. The result is the last one's, as it came, or,
    /// with `"result": "merge"`, all of theirs.
    ///
    /// # Errors
    ///
    /// The failed delegate's, with its name, after all up to it have been undone; code
    /// 110 if the attachment is on the network already; code 106 if it was cancelled.
    pub fn add(&self, attachment: &Attachment) -> Result<JsonOutput, Error> {
        add::add(self, attachment)
    }

    /// DEL: runs the delegates of the ADD, by its record, and those of today's
    /// configuration.
    ///
    /// # Errors
    ///
    /// The first failed delegate's code and all of their messages, after all have run.
    pub fn del(&self, attachment: &Attachment) -> Result<(), Error> {
        let environment = |record: Option<&Record>| {
            // A runtime must give DEL what it gave ADD, and some don't.
            let args = record.map(|it| it.intent.args.as_str());
            match args {
                Some(args) if self.environment.text("CNI_ARGS").is_empty() => {
                    self.environment.clone().with("CNI_ARGS", args)
                }
                _ => self.environment.clone(),
            }
        };
        let failed = del::attachment(self, attachment, self.config, environment);
        match failure::of_all(failed) {
            None => Ok(()),
            Some(error) => Err(self.with_record(attachment, error)),
        }
    }

    /// CHECK: runs the delegates until one fails.
    ///
    /// # Errors
    ///
    /// The failed delegate's; code 7 without `prevResult`.
    pub fn check(&self, attachment: &Attachment) -> Result<(), Error> {
        if self.config.raw_prev_result().is_none() {
            return Err(Error::config(
                "prevResult is missing: CHECK compares with it",
            ));
        }
        check::until_failure(self, Command::Check, Some(attachment))
    }

    /// STATUS: runs the delegates until one fails.
    ///
    /// # Errors
    ///
    /// The failed delegate's.
    pub fn status(&self) -> Result<(), Error> {
        check::until_failure(self, Command::Status, None)
    }

    /// GC: undoes each recorded attachment that `cni.dev/valid-attachments` doesn't list,
    /// and runs the delegates.
    ///
    /// # Errors
    ///
    /// Code 7 without that list; else as DEL.
    pub fn gc(&self) -> Result<(), Error> {
        gc::gc(self)
    }

    /// This call, as it is recorded before it runs these delegates.
    pub(crate) fn recorded_call<'n>(
        &self,
        mut delegates: impl Iterator<Item = &'n DelegateName>,
    ) -> RecordedCall {
        let executes = |found| match found {
            Found::Linked(_, None) => false,
            Found::Linked(..) => !self.settings.calls_linked_plugins,
            Found::File(_) | Found::Chain(_) => true,
        };
        let executes_one = delegates.any(|name| self.plugins.find(name).is_ok_and(executes));
        RecordedCall {
            id: self.id.clone(),
            session: executes_one.then(proc::own_session).flatten(),
        }
    }

    /// The error, and where the attachment is still recorded.
    pub(crate) fn with_record(&self, attachment: &Attachment, error: Error) -> Error {
        match self.journals.existing(attachment) {
            Some(file) => failure::recorded_in(error, &file),
            None => error,
        }
    }

    /// The ID of the machine's last boot, if it can be read.
    pub(crate) fn boot(&self) -> Option<&str> {
        self.boot
            .get_or_init(|| boot_id(self.environment))
            .as_deref()
    }
}

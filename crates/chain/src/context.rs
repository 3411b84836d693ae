//! The context of a call: configuration, environment, settings, plugins, records.

use std::cell::OnceCell;

use cni::{Attachment, Cancellation, DelegateName, Environment, Error, NetworkConfig, boot_id};

use crate::event::Observer;
use crate::failure;
use crate::journal::Journals;
use crate::leftover_processes::{CallId, RunningCalls};
use crate::overtime::Overtime;
use crate::plugins::{Found, Plugins};
use crate::proc;
use crate::record_line::RecordedCall;
use crate::settings::Settings;

/// The context of a call, which all of its steps share.
pub(crate) struct Context<'a> {
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
    /// The earlier calls that still have processes.
    pub(crate) running: RunningCalls,
    boot: OnceCell<Option<String>>,
}

impl<'a> Context<'a> {
    /// The context of a call with these settings, without cancellation and observer.
    pub(crate) fn new(
        settings: Settings,
        config: &'a NetworkConfig,
        environment: &'a Environment,
        plugins: Plugins<'a>,
    ) -> Self {
        Self {
            journals: Journals::new(&settings.state_dir, config.name()),
            overtime: Overtime::new(settings.timeout.is_some()),
            id: CallId::new(),
            settings,
            plugins,
            config,
            environment,
            cancellation: None,
            observer: None,
            running: RunningCalls::default(),
            boot: OnceCell::new(),
        }
    }

    /// This call, as it is recorded before it runs these delegates.
    pub(crate) fn recorded_call<'n>(
        &self,
        mut delegates: impl Iterator<Item = &'n DelegateName>,
    ) -> RecordedCall {
        let executes = |found| match found {
            Found::Linked(_, None) => false,
            Found::Linked(..) => !self.settings.calls_linked_plugins,
            // Perhaps.
            Found::Part(..) => true,
            Found::File(_) | Found::Chain(_) => true,
        };
        let executes_one = delegates.any(|name| self.plugins.find(name).is_ok_and(executes));
        RecordedCall {
            id: self.id.clone(),
            session: executes_one.then(proc::own_session).flatten(),
        }
    }

    /// The error, with the path of the attachment's record if it exists.
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

//! The context of a call: configuration, environment, settings, plugins, records.

use std::cell::OnceCell;

use cni::{Attachment, Cancellation, Environment, Error, NetworkConfig};
use serde_json::value::RawValue;
use state_files::Boot;

use crate::call_id::CallId;
use crate::event::Observer;
use crate::failure;
use crate::journal::Journals;
use crate::overtime::Overtime;
use crate::plugins::Plugins;
use crate::record_line::RecordedCall;
use crate::settings::Settings;

/// The context of a call, which all of its steps share.
pub(crate) struct Context<'a> {
    pub(crate) config: &'a NetworkConfig,
    pub(crate) environment: &'a Environment,
    pub(crate) settings: Settings,
    pub(crate) plugins: Plugins<'a>,
    pub(crate) journals: Journals,
    /// The cancellation of an ADD.
    pub(crate) cancellation: Option<&'a dyn Cancellation>,
    /// The cancellation of a release.
    pub(crate) deadline: Option<&'a dyn Cancellation>,
    pub(crate) observer: Option<&'a dyn Observer>,
    /// The caller's line in the record of an ADD, which must then be recorded.
    pub(crate) caller_line: Option<Box<RawValue>>,
    /// The ID of this call.
    pub(crate) id: CallId,
    /// Time that the call may take beyond its delegates' own.
    pub(crate) overtime: Overtime,
    /// True if every child of this process is one of this call's delegates, or a process
    /// that one of them has left behind.
    pub(crate) owns_process: bool,
    boot: OnceCell<Option<Boot>>,
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
            deadline: None,
            observer: None,
            caller_line: None,
            owns_process: false,
            boot: OnceCell::new(),
        }
    }

    /// This call, as it is recorded.
    pub(crate) fn recorded_call(&self) -> RecordedCall {
        RecordedCall {
            id: self.id.clone(),
        }
    }

    /// The error, with the path of the attachment's record unless it is known to be missing.
    pub(crate) fn with_record(&self, attachment: &Attachment, error: Error) -> Error {
        match self.journals.existing(attachment) {
            Some(file) => failure::recorded_in(error, &file),
            None => error,
        }
    }

    /// The machine's last boot, if its ID can be read.
    pub(crate) fn boot(&self) -> Option<&Boot> {
        self.boot
            .get_or_init(|| Boot::current(self.environment).ok())
            .as_ref()
    }
}

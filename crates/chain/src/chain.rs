//! The chain of a network: its delegates, its settings, and the conditions of one call.

use std::cell::OnceCell;

use cni::{Attachment, Cancellation, DelegateName, Environment, Error, NetworkConfig};
use serde_json::value::RawValue;
use state_files::Boot;

use crate::call::event::{Event, Observer};
use crate::call::plugins::Plugins;
use crate::call_id::CallId;
use crate::overtime::Overtime;
use crate::record::folder::{Found, Records};
use crate::record::lock::{self, IfMissing, LockedRecord};
use crate::settings::{OnError, Settings};

/// A chain: the delegates of a network configuration.
///
/// Each method runs one command: [`Self::add`], [`Self::del`], [`Self::check`],
/// [`Self::status`], [`Self::gc`]; and, for tools, [`Self::release`] and [`Self::dry_run`].
pub struct Chain<'a> {
    pub(crate) config: &'a NetworkConfig,
    pub(crate) environment: &'a Environment,
    pub(crate) settings: Settings,
    pub(crate) plugins: Plugins<'a>,
    pub(crate) records: Records,
    /// The cancellation of an ADD.
    pub(crate) cancellation: Option<&'a dyn Cancellation>,
    /// The cancellation of a release.
    pub(crate) deadline: Option<&'a dyn Cancellation>,
    observer: Option<&'a dyn Observer>,
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
        Self::read(config, environment, plugins, &Err)
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
        Self::read(config, environment, plugins, &|error| {
            tracing::warn!(%error, "ignored on DEL");
            Ok(())
        })
    }

    fn read(
        config: &'a NetworkConfig,
        environment: &'a Environment,
        plugins: Plugins<'a>,
        on_error: OnError<'_>,
    ) -> Result<Self, Error> {
        let settings = Settings::read(config, environment, on_error)?;
        plugins.refuse_recursion(&settings.delegates, environment)?;
        Ok(Self::with_settings(settings, config, environment, plugins))
    }

    /// A chain of one plugin, which is executed even if it is linked. It has no records.
    ///
    /// # Errors
    ///
    /// Code 4 if `CNI_PATH` is missing or empty.
    pub(crate) fn of_one(
        plugin: &DelegateName,
        config: &'a NetworkConfig,
        environment: &'a Environment,
    ) -> Result<Self, Error> {
        let settings = Settings::of_one(plugin.clone());
        let plugins = Plugins::in_cni_path(environment)?;
        Ok(Self::with_settings(settings, config, environment, plugins))
    }

    fn with_settings(
        settings: Settings,
        config: &'a NetworkConfig,
        environment: &'a Environment,
        plugins: Plugins<'a>,
    ) -> Self {
        Self {
            records: Records::new(&settings.state_dir, config.name()),
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

    /// The same chain, with a cancellation of its ADD.
    #[must_use]
    pub fn cancelled_by(mut self, cancellation: Option<&'a dyn Cancellation>) -> Self {
        self.cancellation = cancellation;
        self
    }

    /// The same chain, with one bound for all delegates of a release: at the deadline, the
    /// running one is terminated, and no further one is started.
    #[must_use]
    pub fn released_until(mut self, deadline: &'a dyn Cancellation) -> Self {
        self.deadline = Some(deadline);
        self.overtime = Overtime::new(true);
        self
    }

    /// The same chain, with an observer of its events.
    #[must_use]
    pub fn observed_by(mut self, observer: &'a dyn Observer) -> Self {
        self.observer = Some(observer);
        self
    }

    /// The same chain, in a process that does nothing else and is the subreaper of its
    /// descendants (`PR_SET_CHILD_SUBREAPER`), if `owns` is true. Then what its delegates
    /// leave behind, except daemons, is terminated when they fail, and at the end of the call.
    ///
    /// In any other process, only a delegate's process group is terminated.
    #[must_use]
    pub fn owning_its_process(mut self, owns: bool) -> Self {
        self.owns_process = owns;
        self
    }

    /// The same chain, whose ADD writes this line of the caller into the attachment's record,
    /// together with the intent, before the first delegate runs. The caller reads its lines
    /// back from [`crate::record::AttachmentRecord::caller_lines`], as long as the record
    /// exists: until all delegates have released what they hold.
    ///
    /// An ADD with such a line fails if it can't be recorded. Without one, it is only logged
    /// that the record can't be written.
    #[must_use]
    pub fn with_caller_line(mut self, line: Box<RawValue>) -> Self {
        self.caller_line = Some(line);
        self
    }

    /// Tells the observer of an event.
    pub(crate) fn tell(&self, event: &Event<'_>) {
        if let Some(observer) = self.observer {
            observer.event(event);
        }
    }

    /// Opens an attachment's record and locks it, as [`lock::acquire`] does. A call that holds
    /// the lock is waited for.
    pub(crate) fn lock_record(
        &self,
        attachment: &Attachment,
        if_missing: IfMissing,
    ) -> Result<Found<LockedRecord>, Error> {
        lock::acquire(&self.records, attachment, if_missing, Some(&self.overtime))
    }

    /// The error, with the path of the attachment's record unless it is known to be missing.
    pub(crate) fn with_record(&self, attachment: &Attachment, error: Error) -> Error {
        match self.records.existing(attachment) {
            Some(file) => error.with_line(&format!(
                "recorded, for the next DEL or GC: {}",
                file.display()
            )),
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

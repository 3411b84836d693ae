//! The chain of a network: what a front end sees of this crate.
//!
//! A [`Chain`] has the configuration, the settings, the plugins and the records of a network. Each
//! command is a file below: it locks the attachment's record, decides by it what is to be done, and lets
//! `run` do it. ADD writes the record before the first delegate runs; DEL removes it after the last
//! one has succeeded. So whatever happens to the process, the next ADD, DEL or GC finds what was done.

use std::borrow::Cow;
use std::time::Duration;

use cni::{Attachment, Cancellation, Command, DELEGATE, Environment, Error, NetworkConfig};
use serde_json::value::RawValue;

use crate::call::{Delegates, InheritedLock, Observer, Plugins, TimeLimits};
use crate::record::{AttachmentRecord, ListedRecord, RecordFile, Records, lock};
use crate::settings::Settings;

mod add;
mod check;
mod del;
mod earlier_add;
mod gc;
pub(crate) mod release;
#[cfg(test)]
mod tests;

/// A chain: the delegates of a network configuration.
///
/// Each method runs one command: [`Self::add`], [`Self::del`], [`Self::check`],
/// [`Self::status`], [`Self::gc`]; and, for tools, [`Self::release`] and [`Self::dry_run`].
pub struct Chain<'a> {
    config: Cow<'a, NetworkConfig>,
    environment: &'a Environment,
    settings: Settings,
    plugins: Plugins<'a>,
    records: Records,
    /// The cancellation of an ADD.
    cancellation: Option<&'a dyn Cancellation>,
    /// The limits that the caller sets.
    limits: TimeLimits,
    observer: Option<&'a dyn Observer>,
    /// The caller's line in the record of an ADD, which must then be recorded.
    caller_line: Option<Box<RawValue>>,
}

impl<'a> Chain<'a> {
    /// Reads the settings of the chain.
    ///
    /// Delegates get this environment, with `CNI_COMMAND` set to their command.
    ///
    /// # Errors
    ///
    /// Code 7 for a wrong setting, and if a chain's delegate calls it.
    pub fn new(
        config: &'a NetworkConfig,
        environment: &'a Environment,
        plugins: Plugins<'a>,
    ) -> Result<Self, Error> {
        refuse_delegates_call(environment)?;
        let settings = Settings::read(config, environment)?;
        Ok(Self::with(
            settings,
            Cow::Borrowed(config),
            environment,
            plugins,
        ))
    }

    /// Reads the settings of the chain for DEL or GC: a wrong setting is logged and ignored, so
    /// that attachments are undone by their records in spite of it.
    ///
    /// # Errors
    ///
    /// Code 7 if a chain's delegate calls it; code 7 or 4 if neither delegates nor the folder of the
    /// records is known.
    pub fn to_release(
        config: &'a NetworkConfig,
        environment: &'a Environment,
        plugins: Plugins<'a>,
    ) -> Result<Self, Error> {
        refuse_delegates_call(environment)?;
        let settings = Settings::to_release(config, environment)?;
        Ok(Self::with(
            settings,
            Cow::Borrowed(config),
            environment,
            plugins,
        ))
    }

    /// The chain of a record, with the configuration of its ADD, for [`Self::release`]. No other
    /// configuration is needed.
    ///
    /// # Errors
    ///
    /// Code 5 if the record is damaged; code 7 if its plugins aren't a chain's
    /// ([`crate::OwnRecord`]).
    pub fn of_record(
        record: &ListedRecord,
        environment: &'a Environment,
        plugins: Plugins<'a>,
    ) -> Result<Self, Error> {
        let damaged = |reason: &str| lock::unusable(&record.file, reason);
        let usable = record.content.as_ref();
        let content = usable.map_err(|reason| damaged(reason))?;
        if content.is_undone_by_caller {
            return Err(content.refusal(&record.attachment));
        }
        let config = content.config().map_err(|error| damaged(&error.msg))?;
        let settings = Settings::to_release(&config, environment)?;
        let mut chain = Self::with(settings, Cow::Owned(config), environment, plugins);
        chain.records = record.siblings();
        Ok(chain)
    }

    fn with(
        settings: Settings,
        config: Cow<'a, NetworkConfig>,
        environment: &'a Environment,
        plugins: Plugins<'a>,
    ) -> Self {
        Self {
            records: Records::new(&settings.state_dir, config.name()),
            settings,
            plugins,
            config,
            environment,
            cancellation: None,
            limits: TimeLimits::default(),
            observer: None,
            caller_line: None,
        }
    }

    /// The same chain, with a cancellation of its ADD.
    #[must_use]
    pub fn cancelled_by(mut self, cancellation: Option<&'a dyn Cancellation>) -> Self {
        self.cancellation = cancellation;
        self
    }

    /// The same chain, whose delegates may take at most this long each, and less if
    /// `ipam.delegateTimeout` says so.
    #[must_use]
    pub fn with_longest(mut self, longest: Duration) -> Self {
        self.limits.longest = Some(longest);
        self
    }

    /// The same chain, with an observer of its events.
    #[must_use]
    pub fn observed_by(mut self, observer: &'a dyn Observer) -> Self {
        self.observer = Some(observer);
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

    /// The delegates in this environment, which inherit the lock of this record. They are marked as
    /// a chain's, which no chain may be.
    fn delegates<'c>(
        &'c self,
        environment: Environment,
        record: Option<&'c RecordFile>,
    ) -> Delegates<'c, 'a> {
        Delegates {
            observer: self.observer,
            limits: TimeLimits {
                timeout: self.settings.timeout,
                ..self.limits
            },
            lock: record.map(|record| record as &dyn InheritedLock),
            ..Delegates::new(&self.plugins, environment.with(DELEGATE, "1"))
        }
    }

    /// The environment of the DEL of an attachment: by its record, `CNI_ARGS` are those of its ADD,
    /// and, unless the runtime has called DEL, `CNI_NETNS` is.
    fn environment_of(
        &self,
        attachment: &Attachment,
        record: Option<&AttachmentRecord>,
    ) -> Environment {
        let mut environment = self
            .environment
            .clone()
            .with("CNI_CONTAINERID", attachment.container_id.as_str())
            .with("CNI_IFNAME", attachment.ifname.as_str());
        if let Some(record) = record {
            environment = environment.with("CNI_ARGS", &record.args);
            if self.environment.text("CNI_COMMAND") != Command::Del.as_str() {
                environment = environment.with("CNI_NETNS", &record.netns);
            }
        }
        environment
    }

    /// The error, with the path of the attachment's record if there is one.
    fn with_record(&self, attachment: &Attachment, error: Error) -> Error {
        let file = self.records.file(attachment);
        if !file.exists() {
            return error;
        }
        error.with_line(&format!(
            "recorded, for the next DEL or GC: {}",
            file.display()
        ))
    }
}

/// Refuses a call that comes from a chain's delegate: the chain may be its own, by whatever name.
///
/// # Errors
///
/// Code 7.
fn refuse_delegates_call(environment: &Environment) -> Result<(), Error> {
    if environment.get(DELEGATE).is_none() {
        return Ok(());
    }
    Err(Error::config(format!(
        "ipam.delegates: a delegate has called ipam-delegated again ({DELEGATE} is set); a chain can't be its own delegate",
    )))
}

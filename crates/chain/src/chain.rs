//! The chain of a network: its delegates, its settings, and the conditions of one call.

use std::borrow::Cow;
use std::cell::RefCell;
use std::time::{Duration, Instant};

use cni::{Attachment, Cancellation, Command, DelegateName, Environment, Error, NetworkConfig};
use serde_json::value::RawValue;

use crate::call::{CommonVersions, Event, Observer, Plugins, refuse_delegates_call};
use crate::record::{AttachmentRecord, ListedRecord, Records};
use crate::settings::Settings;

/// A chain: the delegates of a network configuration.
///
/// Each method runs one command: [`Self::add`], [`Self::del`], [`Self::check`],
/// [`Self::status`], [`Self::gc`]; and, for tools, [`Self::release`] and [`Self::dry_run`].
pub struct Chain<'a> {
    pub(crate) config: Cow<'a, NetworkConfig>,
    pub(crate) environment: &'a Environment,
    pub(crate) settings: Settings,
    pub(crate) plugins: Plugins<'a>,
    pub(crate) records: Records,
    /// The cancellation of an ADD.
    pub(crate) cancellation: Option<&'a dyn Cancellation>,
    /// The end of a release.
    pub(crate) deadline: Option<Instant>,
    /// The longest that a delegate may take, whatever its configuration says.
    pub(crate) longest: Option<Duration>,
    pub(crate) observer: Option<&'a dyn Observer>,
    /// The caller's line in the record of an ADD, which must then be recorded.
    pub(crate) caller_line: Option<Box<RawValue>>,
    /// True for one plugin, which may be a chain itself. Delegates of a chain are marked as such, and
    /// refused by it.
    pub(crate) is_one_plugin: bool,
    /// The versions of delegates that don't support the network's.
    pub(crate) versions: RefCell<CommonVersions>,
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
        let borrowed = Cow::Borrowed(config);
        Ok(Self::with(settings, borrowed, environment, plugins))
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
        let borrowed = Cow::Borrowed(config);
        Ok(Self::with(settings, borrowed, environment, plugins))
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
        let path = record.file.display();
        let damaged = |reason: &str| Error::io(format_args!("record {path}"), reason);
        let usable = record.content.as_ref();
        let content = usable.map_err(|reason| damaged(reason))?;
        if content.is_callers {
            return Err(content.refusal(&record.attachment));
        }
        let config = content.config().map_err(|error| damaged(&error.msg))?;
        let settings = Settings::to_release(&config, environment)?;
        let mut chain = Self::with(settings, Cow::Owned(config), environment, plugins);
        chain.records = record.siblings();
        Ok(chain)
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
        let settings = Settings::of_delegates(vec![plugin.clone()]);
        let plugins = Plugins::in_cni_path(environment)?;
        let mut chain = Self::with(settings, Cow::Borrowed(config), environment, plugins);
        chain.is_one_plugin = true;
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
            deadline: None,
            longest: None,
            observer: None,
            caller_line: None,
            is_one_plugin: false,
            versions: RefCell::default(),
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
        self.longest = Some(longest);
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

    /// Tells the observer of an event.
    pub(crate) fn tell(&self, event: &Event<'_>) {
        if let Some(observer) = self.observer {
            observer.event(event);
        }
    }

    /// The environment of the DEL of an attachment: by its record, `CNI_ARGS` are those of its ADD,
    /// and, unless the runtime has called DEL, `CNI_NETNS` is.
    pub(crate) fn environment_of(
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
    pub(crate) fn with_record(&self, attachment: &Attachment, error: Error) -> Error {
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

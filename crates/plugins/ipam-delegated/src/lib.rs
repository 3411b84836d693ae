#![doc = include_str!("../README.md")]

mod log_observer;

use std::path::Path;

use chain::{Chain, Plugins};
use cni::{About, Attachment, Call, Command, Error, JsonOutput, LinkedPlugin, Plugin, Reply};
use plugin::{Linked, MultiCall, own_executable};
use state_files::FileId;

pub use log_observer::LogObserver;

/// The plugin `ipam-delegated`: runs the delegates of `ipam.delegates`.
#[derive(Default)]
pub struct IpamDelegated<'a> {
    /// The other plugins in this executable. The chain calls them without executing them.
    pub others: &'a [Linked<'a>],
}

impl IpamDelegated<'_> {
    /// Creates the chain of a call, and runs it.
    fn with_chain<T>(
        &self,
        call: &Call<'_>,
        check: SettingsCheck,
        run: impl FnOnce(&Chain<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let own = own_executable().ok();
        let linked = |path: &Path| self.linked(path, own);
        let plugins = Plugins::in_cni_path(call.environment)?.and_own_executable(&linked);
        let chain = match check {
            SettingsCheck::Strict => Chain::new(&call.config, call.environment, plugins)?,
            SettingsCheck::Lenient => Chain::to_release(&call.config, call.environment, plugins)?,
        };
        run(&chain
            .cancelled_by(call.cancellation)
            .observed_by(&LogObserver))
    }

    /// The plugin of a path that leads to this process's executable.
    fn linked(&self, path: &Path, own: Option<FileId>) -> Option<&dyn LinkedPlugin> {
        let is_own = own.is_some() && FileId::of(path).ok() == own;
        let plugin = MultiCall::select(self.others, path).filter(|_| is_own)?;
        Some(plugin)
    }
}

/// What to do with invalid settings.
#[derive(Clone, Copy)]
enum SettingsCheck {
    Strict,
    Lenient,
}

impl Plugin for IpamDelegated<'_> {
    fn about(&self) -> About {
        cni::about!()
    }

    fn add(&self, attachment: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        self.with_chain(call, SettingsCheck::Strict, |chain| match call.deliver {
            None => chain.add(attachment).map(Reply::Verbatim),
            Some(deliver) => {
                let deliver = |output: &JsonOutput| deliver(output.as_bytes());
                chain.add_and(attachment, deliver)?;
                Ok(Reply::Delivered)
            }
        })
    }

    fn del(&self, attachment: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        self.with_chain(call, SettingsCheck::Lenient, |chain| chain.del(attachment))
            .map(|()| Reply::Nothing)
    }

    fn check(&self, attachment: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        self.with_chain(call, SettingsCheck::Strict, |chain| chain.check(attachment))
            .map(|()| Reply::Nothing)
    }

    fn gc(&self, call: &Call<'_>) -> Result<Reply, Error> {
        self.with_chain(call, SettingsCheck::Lenient, |chain| chain.gc())
            .map(|()| Reply::Nothing)
    }

    fn status(&self, call: &Call<'_>) -> Result<Reply, Error> {
        self.with_chain(call, SettingsCheck::Strict, |chain| chain.status())
            .map(|()| Reply::Nothing)
    }

    /// The chain undoes a cancelled ADD.
    fn handles_signals(&self, command: Command) -> bool {
        command == Command::Add
    }
}

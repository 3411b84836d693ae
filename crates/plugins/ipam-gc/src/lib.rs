#![doc = include_str!("../README.md")]

use cni::{About, Attachment, Call, Command, DelegateName, Error, JsonOutput, Plugin, Reply};
use ipam_delegated::{IpamDelegated, LogObserver};

/// The chained plugin `ipam-gc`: sends GC and STATUS to the IPAM plugin of its network.
#[derive(Default)]
pub struct IpamGc<'a> {
    /// The chain that it runs.
    pub chain: IpamDelegated<'a>,
}

/// Variable that tells an IPAM plugin that `ipam-gc` has called it.
const FORWARDED: &str = "IPAM_GC_FORWARDED";

impl Plugin for IpamGc<'_> {
    fn about(&self) -> About {
        cni::about!()
    }

    fn add(&self, _: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        prev_result(call).map(Reply::Verbatim)
    }

    fn check(&self, _: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        prev_result(call).map(|_| Reply::Nothing)
    }

    fn gc(&self, call: &Call<'_>) -> Result<Reply, Error> {
        match self.other_plugin(call) {
            Ok(None) => self.chain.gc(call),
            Ok(Some(name)) => forward(Command::Gc, &name, call),
            // The chain goes by its records, whatever the section says today.
            Err(error) => {
                tracing::warn!(%error, "collecting what is recorded");
                self.chain.gc(call)
            }
        }
    }

    fn status(&self, call: &Call<'_>) -> Result<Reply, Error> {
        match self.other_plugin(call)? {
            None => self.chain.status(call),
            Some(name) => forward(Command::Status, &name, call),
        }
    }
}

impl IpamGc<'_> {
    /// The network's IPAM plugin, by `ipam.type`; `None` for `ipam-delegated`, whose chain this
    /// process runs.
    ///
    /// # Errors
    ///
    /// Code 7 if it is missing, isn't a plugin's name, or names this plugin.
    fn other_plugin(&self, call: &Call<'_>) -> Result<Option<DelegateName>, Error> {
        let name: String = call.config.ipam()?.read("ipam", "type")?.ok_or_else(|| {
            Error::config("ipam.type is missing: it must be that of the main plugin's ipam section")
        })?;
        if name == self.chain.about().name {
            return Ok(None);
        }
        if name == self.about().name {
            return Err(Error::config(format!(
                "ipam.type: {name:?} is not an IPAM plugin; it must be that of the main plugin's ipam section"
            )));
        }
        let invalid = |why| Error::config(format!("ipam.type: {name:?}: {why}"));
        name.parse().map(Some).map_err(invalid)
    }
}

/// `prevResult`, byte by byte.
///
/// # Errors
///
/// Code 7 if it is missing: the plugin is the first one of the conflist, or was called as
/// an IPAM plugin.
fn prev_result(call: &Call<'_>) -> Result<JsonOutput, Error> {
    let raw = call.config.raw_prev_result().ok_or_else(|| {
        Error::config(
            "prevResult is missing: this plugin must come after the main plugin in the conflist",
        )
    })?;
    let bytes = raw.get().as_bytes().to_vec();
    JsonOutput::try_from(bytes).map_err(|why| Error::config(format!("prevResult: {why}")))
}

/// Executes an IPAM plugin other than `ipam-delegated`.
///
/// # Errors
///
/// The plugin's error, with its name; code 7 if the plugin is this one under another name.
fn forward(command: Command, name: &DelegateName, call: &Call<'_>) -> Result<Reply, Error> {
    if call.environment.get(FORWARDED).is_some() {
        return Err(Error::config(format!(
            "ipam.type: {:?} leads back to this plugin, which is not an IPAM plugin",
            name.as_str()
        )));
    }
    let environment = call.environment.clone().with(FORWARDED, "1");
    chain::forward(command, name, &call.config, &environment, &LogObserver).map(|()| Reply::Nothing)
}

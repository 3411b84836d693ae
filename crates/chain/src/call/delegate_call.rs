//! A call of one delegate: its name, the command and its configuration.

use std::borrow::Cow;

use cni::{Command, DelegateName, NetworkConfig};
use serde_json::value::RawValue;

#[derive(Clone)]
pub(crate) struct DelegateCall<'a> {
    pub(crate) name: &'a DelegateName,
    pub(crate) command: Command,
    /// Its configuration, `prevResult` included.
    pub(crate) config: Cow<'a, NetworkConfig>,
}

impl<'a> DelegateCall<'a> {
    /// A call with this configuration. `prev_result` replaces its `prevResult`.
    pub(crate) fn new(
        name: &'a DelegateName,
        command: Command,
        config: &'a NetworkConfig,
        prev_result: Option<&'a RawValue>,
    ) -> Self {
        let config = match prev_result {
            Some(prev_result) => Cow::Owned(config.with_prev_result(prev_result)),
            None => Cow::Borrowed(config),
        };
        Self {
            name,
            command,
            config,
        }
    }
}

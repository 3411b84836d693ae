//! A call of a delegate: its command, configuration and stdin.

use std::borrow::Cow;

use cni::{Command, DelegateName, NetworkConfig};
use serde_json::value::RawValue;

/// A call of a delegate.
#[derive(Clone)]
pub(crate) struct DelegateCall<'a> {
    pub(crate) name: &'a DelegateName,
    pub(crate) command: Command,
    /// Its configuration, `prevResult` included.
    pub(crate) config: Cow<'a, NetworkConfig>,
    /// `prevResult`, if it isn't the one that the chain was called with.
    pub(crate) prev_result: Option<&'a RawValue>,
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
            prev_result,
        }
    }

    /// The delegate's stdin.
    pub(crate) fn stdin(&self) -> Cow<'_, [u8]> {
        match self.command {
            Command::Version => {
                let version = self.config.version();
                format!(r#"{{"cniVersion":"{version}"}}"#)
                    .into_bytes()
                    .into()
            }
            _ => self.config.as_bytes().into(),
        }
    }
}

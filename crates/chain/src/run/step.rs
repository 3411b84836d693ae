//! Step of one delegate in a command other than ADD.

use cni::{DelegateName, NetworkConfig};
use serde_json::value::RawValue;

use crate::record::attachment_record::RecordedDelegate;

/// The step of one delegate, in any command other than ADD.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step<'a> {
    pub(crate) name: &'a DelegateName,
    /// Its configuration, without `prevResult`.
    pub(crate) config: &'a NetworkConfig,
    /// Today's configuration, if it differs: for a second attempt, if the first fails.
    pub(crate) fallback: Option<&'a NetworkConfig>,
    /// Its part in the recorded ADD. The recorded result replaces a missing one, and the
    /// result of a selector that fails.
    pub(crate) recorded: Option<RecordedDelegate<'a>>,
    /// The recorded result of a selector. It replaces a missing one.
    pub(crate) selection: Option<&'a RawValue>,
    /// True if it may be gone from the node, since today's configuration doesn't name it.
    pub(crate) may_be_gone: bool,
}

impl<'a> Step<'a> {
    /// A step of which nothing is recorded.
    pub(crate) fn new(name: &'a DelegateName, config: &'a NetworkConfig) -> Self {
        Self {
            name,
            config,
            fallback: None,
            recorded: None,
            selection: None,
            may_be_gone: false,
        }
    }

    /// The step of a delegate of a recorded ADD.
    pub(crate) fn recorded(delegate: RecordedDelegate<'a>, config: &'a NetworkConfig) -> Self {
        Self {
            recorded: Some(delegate),
            selection: delegate.selection(),
            ..Self::new(delegate.name, config)
        }
    }

    /// The steps of these delegates, of which nothing is recorded.
    pub(crate) fn all(names: &'a [DelegateName], config: &'a NetworkConfig) -> Vec<Self> {
        names.iter().map(|name| Self::new(name, config)).collect()
    }
}

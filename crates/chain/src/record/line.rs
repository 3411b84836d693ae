//! A line of an attachment's record, as it is written.

use cni::{Attachment, ContainerId, DelegateName, IfName, NetworkConfig, NetworkName};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::call_id::CallId;

/// The version of the format.
pub(crate) const FORMAT: u32 = 2;

/// The largest configuration or result that is recorded, in bytes.
pub(crate) const MOST: usize = 256 << 10;

/// An event in the life of an attachment: a line of the record.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Line {
    /// ADD is about to run the first delegate.
    Adding(Box<Intent>),
    /// A delegate has succeeded with ADD: its result, or the merged one; `null` if it is
    /// too large.
    Result(Box<RawValue>),
    /// All delegates have succeeded with ADD.
    Added {},
    /// DEL is about to run the first delegate.
    Deleting(RecordedCall),
    /// A line of the chain's caller, which only the caller understands.
    Caller(Box<RawValue>),
}

/// The first line of a record.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Intent {
    /// [`FORMAT`].
    pub(crate) format: u32,
    pub(crate) network: NetworkName,
    pub(crate) container_id: ContainerId,
    pub(crate) ifname: IfName,
    /// The call of the ADD.
    pub(crate) call: RecordedCall,
    /// The trace ID of the ADD.
    pub(crate) trace: String,
    /// The boot of the ADD, if it is known.
    pub(crate) boot: Option<String>,
    /// `CNI_NETNS` of the ADD.
    pub(crate) netns: String,
    /// `CNI_ARGS` of the ADD.
    pub(crate) args: String,
    /// The delegates, in order.
    pub(crate) delegates: Vec<DelegateName>,
    /// The configuration of the ADD, unless it is too large.
    pub(crate) config: Option<Box<RawValue>>,
}

/// The call that wrote a line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RecordedCall {
    /// Its ID, which the processes of its delegates have in their environment.
    pub(crate) id: CallId,
}

impl Intent {
    /// The intent of an ADD with this configuration.
    pub(crate) fn new(
        config: &NetworkConfig,
        attachment: &Attachment,
        delegates: &[DelegateName],
        id: CallId,
    ) -> Self {
        let is_kept = config.as_bytes().len() <= MOST;
        Self {
            format: FORMAT,
            network: config.name().clone(),
            container_id: attachment.container_id.clone(),
            ifname: attachment.ifname.clone(),
            call: RecordedCall { id },
            trace: String::new(),
            boot: None,
            netns: String::new(),
            args: String::new(),
            delegates: delegates.to_vec(),
            config: is_kept.then(|| config.to_raw()),
        }
    }
}

impl Line {
    /// The line of a delegate's result.
    pub(crate) fn result(result: &RawValue) -> Self {
        let is_kept = result.get().len() <= MOST;
        let result = if is_kept { result } else { RawValue::NULL };
        Self::Result(result.to_owned())
    }

    /// The line as it is written.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut json = serde_json::to_vec(self).expect("a line is JSON");
        // A delegate's output may have several lines. In JSON, a line feed is white space.
        for byte in &mut json {
            if *byte == b'\n' {
                *byte = b' ';
            }
        }
        json.push(b'\n');
        json
    }
}

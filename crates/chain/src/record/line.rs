//! A line of an attachment's record, as it is written.

use std::time::SystemTime;

use cni::{
    Attachment, ContainerId, DelegateName, Environment, IfName, NetworkConfig, NetworkName,
    TraceContext,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::record::namespace::NamespaceId;

/// The version of the format.
pub(crate) const FORMAT: u32 = 3;

/// An event in the life of an attachment: a line of the record.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Line {
    /// ADD is about to run the first delegate.
    Adding(Box<Intent>),
    /// A delegate has succeeded with ADD: its result, or the merged one.
    Result(Box<RawValue>),
    /// All delegates have succeeded with ADD.
    Added {},
    /// DEL is about to run the first delegate.
    Deleting {
        /// Start of the DEL, as [`Intent::at`].
        at: String,
    },
    /// A line of the chain's caller, which only the caller understands.
    Caller(Box<RawValue>),
}

/// The first line of a record.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Intent {
    /// The version of the format: [`FORMAT`].
    pub(crate) format: u32,
    pub(crate) network: NetworkName,
    pub(crate) container_id: ContainerId,
    pub(crate) ifname: IfName,
    /// Start of the ADD: RFC 3339.
    pub(crate) at: String,
    /// The trace ID of the ADD.
    pub(crate) trace: String,
    /// `CNI_NETNS` of the ADD.
    pub(crate) netns: String,
    /// The namespace at this path; `None` if there was none.
    pub(crate) netns_id: Option<NamespaceId>,
    /// `CNI_ARGS` of the ADD.
    pub(crate) args: String,
    /// The delegates, in order.
    pub(crate) delegates: Vec<DelegateName>,
    /// The configuration of the ADD.
    pub(crate) config: Box<RawValue>,
    /// True if the chain's caller runs the plugins itself ([`crate::OwnRecord`]).
    #[serde(
        rename = "isCallers",
        default,
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub(crate) is_undone_by_caller: bool,
}

impl Intent {
    /// The intent of an ADD with this configuration and environment, which begins now.
    pub(crate) fn new(
        config: &NetworkConfig,
        attachment: &Attachment,
        delegates: &[DelegateName],
        environment: &Environment,
    ) -> Self {
        let netns = environment.text("CNI_NETNS");
        Self {
            format: FORMAT,
            network: config.name().clone(),
            container_id: attachment.container_id.clone(),
            ifname: attachment.ifname.clone(),
            at: now(),
            trace: TraceContext::of_call(environment).trace_id().to_owned(),
            netns_id: NamespaceId::of(netns.as_ref()).ok(),
            netns,
            args: environment.text("CNI_ARGS"),
            delegates: delegates.to_vec(),
            config: config.to_raw(),
            is_undone_by_caller: false,
        }
    }
}

impl Line {
    /// The line of a DEL that begins now.
    pub(crate) fn deleting() -> Self {
        Self::Deleting { at: now() }
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

/// The time of an event that happens now: RFC 3339 in UTC, with nanoseconds.
fn now() -> String {
    humantime::format_rfc3339_nanos(SystemTime::now()).to_string()
}

//! An endpoint, which is its record. The record is also the endpoint's lock: every program that is
//! executed for the endpoint inherits it, so it is held until the last of them has ended, even if
//! the daemon was killed.

use std::time::SystemTime;

use anyhow::{Context, Result, anyhow, bail};
use chain::record::{ListedRecord, RecordState};
use cni::{Attachment, ContainerId, NetworkConfig};
use docker_records::records::{CallerLine, DOCKER_PREFIX, EndpointLine};
use serde_json::value::RawValue;

use crate::ipam::chains;

/// An endpoint.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    /// Docker's IDs, and what Docker gives the interface.
    pub(crate) line: EndpointLine,
    /// The network configuration of its ADD, a list of plugins.
    pub(crate) config: NetworkConfig,
    /// `CNI_ARGS` of its plugins.
    pub(crate) args: String,
    /// Result of its plugins, once there is one.
    pub(crate) result: Option<Box<RawValue>>,
    /// True if all plugins have succeeded, and Docker has not given it back.
    pub(crate) is_made: bool,
    /// The start of its ADD.
    pub(crate) added: SystemTime,
}

/// The attachment of the endpoint of this ID.
///
/// # Errors
///
/// The ID is none.
pub(crate) fn attachment(endpoint_id: &str) -> Result<Attachment> {
    let is_id = !endpoint_id.is_empty() && endpoint_id.bytes().all(|b| b.is_ascii_alphanumeric());
    let id = format!("{DOCKER_PREFIX}{endpoint_id}");
    let id = id.parse::<ContainerId>().ok().filter(|_| is_id);
    let id = id.with_context(|| format!("EndpointID: {endpoint_id:?} is no ID"))?;
    Ok(chains::attachment(&id))
}

impl Endpoint {
    /// The endpoint of a record.
    ///
    /// # Errors
    ///
    /// The record can't be read, or is that of something else.
    pub(crate) fn of(record: ListedRecord) -> Result<Self> {
        let file = record.file.display().to_string();
        let content = record.content.map_err(|reason| anyhow!(reason));
        let endpoint = content.and_then(|content| {
            let Some(CallerLine::Endpoint(line)) = CallerLine::of(&content) else {
                bail!("it names no endpoint of Docker's");
            };
            Ok(Self {
                line,
                config: content.config().context("it has no configuration")?,
                result: content.answer().map(ToOwned::to_owned),
                args: content.args,
                is_made: content.state == RecordState::Added,
                added: content.added,
            })
        });
        endpoint.context(file)
    }

    /// The container ID that its plugins are told.
    pub(crate) fn container_id(&self) -> String {
        format!("{DOCKER_PREFIX}{}", self.line.id)
    }
}

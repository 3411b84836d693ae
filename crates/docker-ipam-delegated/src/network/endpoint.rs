//! An endpoint, which is its record. The record is also the endpoint's lock: every program that is
//! executed for the endpoint inherits it, so it is held until the last of them has ended, even if
//! the daemon was killed.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use chain::OwnRecord;
use chain::record::{AttachmentRecord, RecordState, record_of};
use cni::{Attachment, ContainerId, Environment, NetworkConfig, NetworkName};
use serde_json::value::RawValue;

use crate::ipam::chains;
use crate::network::plugin_list;
use crate::records::{EndpointLine, Line};

/// An endpoint.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    /// Docker's IDs, and what Docker gives the interface.
    pub(crate) line: EndpointLine,
    /// The network configuration of its ADD, a list of plugins.
    pub(crate) config: NetworkConfig,
    /// Network namespace of its plugins.
    pub(crate) netns: String,
    /// `CNI_ARGS` of its plugins.
    pub(crate) args: String,
    /// Result of its plugins, once there is one.
    pub(crate) result: Option<Box<RawValue>>,
    /// True if all plugins have succeeded, and Docker has not given it back.
    pub(crate) is_made: bool,
}

/// The attachment of the endpoint of this ID.
///
/// # Errors
///
/// The ID is none.
pub(crate) fn attachment(endpoint_id: &str) -> Result<Attachment> {
    let is_id = !endpoint_id.is_empty() && endpoint_id.bytes().all(|b| b.is_ascii_alphanumeric());
    let id = format!("docker-{endpoint_id}").parse::<ContainerId>().ok();
    let id = id.filter(|_| is_id);
    let id = id.with_context(|| format!("EndpointID: {endpoint_id:?} is no ID"))?;
    Ok(chains::attachment(&id))
}

impl Endpoint {
    /// The endpoint of this ID; `None` if it has no record, or an empty one.
    ///
    /// # Errors
    ///
    /// The record can't be read.
    pub(crate) fn read(records: &Path, network: &NetworkName, id: &str) -> Result<Option<Self>> {
        let Some(record) = record_of(records, network, &attachment(id)?)? else {
            return Ok(None);
        };
        let content = record.content.map_err(|reason| anyhow!(reason));
        let endpoint = content.and_then(Self::of);
        Ok(Some(
            endpoint.with_context(|| record.file.display().to_string())?,
        ))
    }

    /// The endpoint of a record.
    ///
    /// # Errors
    ///
    /// It is the record of something else.
    pub(crate) fn of(record: AttachmentRecord) -> Result<Self> {
        let Some(Line::Endpoint(line)) = Line::of(&record) else {
            return Err(anyhow!("it names no endpoint of Docker's"));
        };
        let is_made = record.state == RecordState::Added;
        Ok(Self {
            line,
            config: record.config().context("it has no configuration")?,
            result: record.answer().map(ToOwned::to_owned),
            netns: record.netns,
            args: record.args,
            is_made,
        })
    }

    /// The container ID that its plugins are told.
    pub(crate) fn container_id(&self) -> String {
        format!("docker-{}", self.line.id)
    }

    /// Creates the record, before the endpoint is made.
    ///
    /// # Errors
    ///
    /// There is one; it can't be written.
    pub(crate) fn begin(&self, records: &Path, environment: &Environment) -> Result<OwnRecord> {
        let environment = environment.clone();
        Ok(OwnRecord::begin(
            records,
            &self.config,
            &attachment(&self.line.id)?,
            &plugin_list::names(&self.config)?,
            &environment
                .with("CNI_NETNS", &self.netns)
                .with("CNI_ARGS", &self.args),
            Line::Endpoint(self.line.clone()).to_raw(),
        )?)
    }
}

//! The open record of an endpoint. It is also the endpoint's lock: every program that is
//! executed for the endpoint inherits it, so it is held as long as one of them is at work, even
//! if the daemon was killed.

use chain::{Execution, OwnRecord};
use cni::{Attachment, Error, NetworkConfig, NetworkName};
use serde_json::value::RawValue;

use crate::http::refusal::{Refusal, impossible};
use crate::network::namespaces::IFNAME;
use crate::network::network_driver::NetworkDriver;
use crate::network::plugin_list;
use crate::state::caller_line::CallerLine;
use crate::state::endpoint::Endpoint;

/// The record, locked; without one, programs inherit nothing.
pub(crate) struct LockedEndpoint(Option<OwnRecord>);

impl NetworkDriver {
    /// Makes the record of an endpoint that is about to be made.
    ///
    /// # Errors
    ///
    /// It can't be written.
    pub(crate) fn begin_record(&self, endpoint: &Endpoint) -> Result<LockedEndpoint, Refusal> {
        let list = serde_json::from_str(&endpoint.list);
        let list = list.map_err(|error| impossible(error.to_string()))?;
        let (config, attachment) = (config(endpoint)?, attachment(endpoint)?);
        let environment = self.plugins.environment();
        let environment = environment
            .clone()
            .with("CNI_NETNS", &endpoint.netns)
            .with("CNI_ARGS", &endpoint.args);
        let record = OwnRecord::begin(
            &self.records,
            &config,
            &attachment,
            &plugin_list::names(&list)?,
            &environment,
            CallerLine::Endpoint(endpoint.plugged.clone()).to_raw(),
        );
        record
            .map(|record| LockedEndpoint(Some(record)))
            .map_err(|error| unwritten(&error))
    }

    /// Locks an endpoint, which no other call of this process has locked. What a killed daemon
    /// has left is waited for.
    ///
    /// # Errors
    ///
    /// A process holds on; it is named. Or it is not known whether there is a record.
    pub(crate) fn lock_endpoint(&self, endpoint: &Endpoint) -> Result<LockedEndpoint, Refusal> {
        let (config, attachment) = (config(endpoint)?, attachment(endpoint)?);
        let record = OwnRecord::open(&self.records, config.name(), &attachment)?;
        if record.is_none() {
            tracing::warn!(endpoint = endpoint.plugged.id, "has no record");
        }
        Ok(LockedEndpoint(record))
    }

    /// Removes the record of an endpoint that was not begun: a daemon was killed before it wrote
    /// anything.
    pub(crate) fn remove_empty(&self, network: &NetworkName, attachment: &Attachment) {
        match OwnRecord::open(&self.records, network, attachment) {
            Ok(Some(record)) => record.remove(),
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, %attachment, "its empty record can't be removed"),
        }
    }
}

impl LockedEndpoint {
    /// The execution of programs for the endpoint.
    pub(crate) fn execution<'a>(&'a self, driver: &'a NetworkDriver) -> Execution<'a> {
        driver
            .plugins
            .execution(self.0.as_ref().and_then(OwnRecord::lock))
    }

    /// Notes that the endpoint is made, with the results of its plugins.
    ///
    /// # Errors
    ///
    /// It can't be written.
    pub(crate) fn added(&self, results: &[Box<RawValue>]) -> Result<(), Refusal> {
        self.write(|record| record.added(results))
    }

    /// Appends a line of the daemon's.
    ///
    /// # Errors
    ///
    /// It can't be written.
    pub(crate) fn append(&self, line: &CallerLine) -> Result<(), Refusal> {
        self.write(|record| record.append_caller_line(line.to_raw()))
    }

    fn write(&self, write: impl FnOnce(&OwnRecord) -> Result<(), Error>) -> Result<(), Refusal> {
        match &self.0 {
            Some(record) => write(record).map_err(|error| unwritten(&error)),
            None => Err(impossible("the endpoint has no record")),
        }
    }

    /// Notes that the endpoint is about to be undone. If this can't be written, it is undone
    /// nevertheless: to give something back must need no space.
    pub(crate) fn deleting(&self) {
        if let Some(record) = &self.0 {
            record.deleting();
        }
    }

    /// Removes the record.
    pub(crate) fn remove(self) {
        if let Some(record) = self.0 {
            record.remove();
        }
    }
}

/// The network configuration as the record has it.
fn config(endpoint: &Endpoint) -> Result<NetworkConfig, Error> {
    NetworkConfig::parse(endpoint.list.clone().into_bytes())
}

fn attachment(endpoint: &Endpoint) -> Result<Attachment, Refusal> {
    let id = endpoint.container_id();
    let ifname = IFNAME.parse().map_err(|_| impossible(IFNAME))?;
    let container_id = id.parse().map_err(|_| impossible(id))?;
    Ok(Attachment {
        container_id,
        ifname,
    })
}

fn unwritten(error: &Error) -> Refusal {
    impossible(format!("the daemon's state can't be written: {error}"))
}

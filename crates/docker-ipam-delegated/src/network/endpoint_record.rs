//! The open record of an endpoint. It is also the endpoint's lock: every program that is
//! executed for the endpoint inherits it, so it is held until the last of them has ended, even
//! if the daemon was killed.

use std::time::Duration;

use anyhow::{Context, Result};
use chain::{Execution, OwnRecord};
use cni::{Attachment, NetworkName};

use crate::network::network_driver::NetworkDriver;
use crate::network::plugin_list;
use crate::state::endpoint::Endpoint;
use crate::state::files::UNWRITTEN;
use crate::state::record::{CallerLine, IFNAME};

/// The longest that a plugin may take: the kubelet's default time for a runtime's call
/// (`runtimeRequestTimeout`).
const LONGEST: Duration = Duration::from_secs(120);

impl NetworkDriver {
    /// Creates the record of an endpoint before the endpoint is made.
    ///
    /// # Errors
    ///
    /// It can't be written.
    pub(crate) fn begin_record(&self, endpoint: &Endpoint) -> Result<OwnRecord> {
        let environment = self.environment.clone();
        OwnRecord::begin(
            &self.records,
            &endpoint.config,
            &attachment(endpoint)?,
            &plugin_list::names(&endpoint.config)?,
            &environment
                .with("CNI_NETNS", &endpoint.netns)
                .with("CNI_ARGS", &endpoint.args),
            CallerLine::Endpoint(endpoint.plugged.clone()).to_raw(),
        )
        .context(UNWRITTEN)
    }

    /// Locks an endpoint that no other call of this process has locked; `None` if the endpoint
    /// has no record. Waits for the programs that a killed daemon has left.
    ///
    /// # Errors
    ///
    /// A process still holds the lock; it is named. Or it is unknown whether there is a record.
    pub(crate) fn lock_endpoint(&self, endpoint: &Endpoint) -> Result<Option<OwnRecord>> {
        let name = endpoint.config.name();
        let record = OwnRecord::open(&self.records, name, &attachment(endpoint)?)?;
        if record.is_none() {
            tracing::warn!(endpoint = endpoint.plugged.id, "has no record");
        }
        Ok(record)
    }

    /// Removes an empty record: a daemon was killed before it wrote anything.
    pub(crate) fn remove_empty(&self, network: &NetworkName, attachment: &Attachment) {
        match OwnRecord::open(&self.records, network, attachment) {
            Ok(Some(record)) => record.remove(),
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, %attachment, "its empty record can't be removed"),
        }
    }

    /// The execution of programs for an endpoint, which inherit the lock of its record.
    pub(crate) fn execution<'a>(&'a self, record: Option<&'a OwnRecord>) -> Execution<'a> {
        Execution {
            environment: &self.environment,
            timeout: LONGEST,
            lock: record.and_then(OwnRecord::lock),
        }
    }
}

fn attachment(endpoint: &Endpoint) -> Result<Attachment> {
    Ok(Attachment {
        container_id: endpoint.container_id().parse()?,
        ifname: IFNAME.parse()?,
    })
}

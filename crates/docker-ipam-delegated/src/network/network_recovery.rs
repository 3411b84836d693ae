//! Start of the network driver: reads the networks, and the records of the endpoints. An
//! endpoint that an earlier daemon was making or undoing when it was killed is to be undone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;

use crate::command_line::CommandLine;
use crate::ipam::plugin_environment::for_plugins;
use crate::lock::lock;
use crate::network::live_endpoints::LiveEndpoint;
use crate::network::network_driver::{CALLS_AT_ONCE, NetworkDriver};
use crate::network::plugin_list::PluginRunner;
use crate::state::caller_line::Progress;
use crate::state::endpoint::{self, EndpointRecord};
use crate::state::files::{Files, Stored};
use crate::state::network::Network;
use crate::turns::Turns;

/// The driver, with what an earlier daemon has left.
///
/// # Errors
///
/// A folder of the daemon's files can't be read.
pub(crate) fn driver(arguments: &CommandLine, files: Arc<Files>) -> Result<Arc<NetworkDriver>> {
    let driver = NetworkDriver {
        files,
        records: endpoint::records(&arguments.state_dir),
        conf_dir: arguments.conf_dir.clone(),
        plugins: PluginRunner::new(&arguments.cni_path, for_plugins(std::env::vars_os())),
        networks: Default::default(),
        endpoints: Default::default(),
        turns: Turns::new(CALLS_AT_ONCE),
        has_unread_records: AtomicBool::new(false),
    };
    for network in driver.files.networks.load()? {
        driver.take_in_network(network);
    }
    for record in endpoint::read_all(&driver.records)? {
        if matches!(record.content, Ok(None)) {
            driver.remove_empty(&record);
        }
        driver.take_in_endpoint(record);
    }
    Ok(Arc::new(driver))
}

impl NetworkDriver {
    /// Takes in what could not be read, and can be by now.
    pub(crate) fn take_in_unread(&self) {
        for network in self.files.networks.load_unread() {
            self.take_in_network(network);
        }
        if !self.has_unread_records.swap(false, Ordering::Relaxed) {
            return;
        }
        match endpoint::read_all(&self.records) {
            Ok(records) => {
                for record in records {
                    self.take_in_endpoint(record);
                }
            }
            Err(error) => {
                tracing::warn!(%error, "the records of endpoints can't be read");
                self.has_unread_records.store(true, Ordering::Relaxed);
            }
        }
    }

    fn take_in_network(&self, stored: Stored<Network>) {
        let network = (stored.file, stored.object);
        lock(&self.networks).insert(network.1.id.clone(), network);
    }

    fn take_in_endpoint(&self, record: EndpointRecord) {
        let (endpoint, progress) = match record.content {
            Ok(Some(content)) => content,
            // It is being made.
            Ok(None) => return,
            Err(reason) => {
                let id = record.attachment.container_id;
                tracing::warn!(reason, %id, "the record of an endpoint can't be read");
                self.has_unread_records.store(true, Ordering::Relaxed);
                return;
            }
        };
        // One that is known already stays as it is.
        let _ = self.endpoints.add(LiveEndpoint {
            // Docker never had it, or has given it back.
            is_abandoned: matches!(progress, Progress::Begun | Progress::Ending),
            is_unanswered: progress == Progress::Made,
            ..LiveEndpoint::new(endpoint)
        });
    }
}

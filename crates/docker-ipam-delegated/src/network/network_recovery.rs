//! Start of the network driver: reads what is remembered. What an earlier daemon was doing
//! when it was killed is left to be undone.

use std::sync::Arc;

use anyhow::Result;

use crate::command_line::CommandLine;
use crate::ipam::plugin_environment::for_plugins;
use crate::lock::lock;
use crate::network::live_endpoints::LiveEndpoint;
use crate::network::network_driver::{NetworkDriver, Stored};
use crate::network::plugin_list::PluginRunner;
use crate::state::endpoint::Endpoint;
use crate::state::journal::Stage;
use crate::state::memory::Memory;
use crate::state::network::Network;

/// The driver, with what it remembers.
///
/// # Errors
///
/// The memory can't be read.
pub(crate) fn driver(arguments: &CommandLine, memory: Arc<Memory>) -> Result<Arc<NetworkDriver>> {
    let driver = NetworkDriver {
        memory,
        conf_dir: arguments.conf_dir.clone(),
        plugins: PluginRunner::new(&arguments.cni_path, for_plugins(std::env::vars_os())),
        networks: Default::default(),
        endpoints: Default::default(),
    };
    for (file, stage) in driver.memory.networks.load()? {
        driver.take_in_network(file, stage);
    }
    for (file, stage) in driver.memory.endpoints.load()? {
        driver.take_in_endpoint(&file, stage);
    }
    Ok(Arc::new(driver))
}

impl NetworkDriver {
    /// Takes in what could not be read, and can be by now.
    pub(crate) fn take_in_unread(&self) {
        for (file, stage) in self.memory.networks.load_unread() {
            self.take_in_network(file, stage);
        }
        for (file, stage) in self.memory.endpoints.load_unread() {
            self.take_in_endpoint(&file, stage);
        }
    }

    fn take_in_network(&self, file: String, stage: Stage<Network>) {
        match stage {
            Stage::Made(object) | Stage::Answered(object) => {
                let id = object.id.clone();
                lock(&self.networks).insert(id, Stored { file, object });
            }
            // A network alone holds nothing.
            _ => self.memory.networks.remove(&file),
        }
    }

    fn take_in_endpoint(&self, file: &str, stage: Stage<Endpoint>) {
        let (is_abandoned, is_unanswered) = match stage {
            // Docker never had it, or has given it back: it is undone before the next one is
            // made.
            Stage::Begun(_) | Stage::Ending(_) => (true, false),
            Stage::Made(_) => (false, true),
            Stage::Answered(_) => (false, false),
        };
        let endpoint = stage.into_object();
        let live = LiveEndpoint {
            is_abandoned,
            is_unanswered,
            ..LiveEndpoint::new(file, endpoint)
        };
        if !self.endpoints.add(live) {
            tracing::warn!(file, "is a second file of an endpoint");
        }
    }
}

//! Start of the network driver: reads what is remembered, and undoes or finishes what an
//! earlier daemon was doing when it was killed.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use anyhow::Result;

use crate::command_line::CommandLine;
use crate::endpoint::{Endpoint, LiveEndpoint};
use crate::journal::Stage;
use crate::memory::Memory;
use crate::network_driver::{NetworkDriver, Stored};
use crate::networks::Network;
use crate::plugin_environment::for_plugins;
use crate::plugin_list::PluginRunner;
use crate::state::lock;

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
        dockerds: AtomicU64::new(0),
    };
    driver.recover_networks()?;
    driver.recover_endpoints()?;
    Ok(Arc::new(driver))
}

impl NetworkDriver {
    fn recover_networks(&self) -> Result<()> {
        for (file, stage) in self.memory.networks.load::<Network>()?.objects {
            match stage {
                Stage::Made(object) | Stage::Answered(object) => {
                    let id = object.id.clone();
                    lock(&self.networks).insert(id, Stored { file, object });
                }
                // A network alone holds nothing.
                _ => self.memory.networks.remove(&file),
            }
        }
        Ok(())
    }

    fn recover_endpoints(&self) -> Result<()> {
        for (file, stage) in self.memory.endpoints.load::<Endpoint>()?.objects {
            match stage {
                Stage::Begun(endpoint) | Stage::Ending(endpoint) => {
                    if self.is_undone(&file, endpoint) {
                        self.memory.endpoints.remove(&file);
                    }
                }
                Stage::Made(endpoint) => {
                    let mut live = LiveEndpoint::new(&file, endpoint);
                    live.is_unanswered = true;
                    self.recover(live);
                }
                Stage::Answered(endpoint) => self.recover(LiveEndpoint::new(&file, endpoint)),
            }
        }
        Ok(())
    }

    /// Undoes an endpoint. If that fails, it is tried again before the next one is made.
    fn is_undone(&self, file: &str, endpoint: Endpoint) -> bool {
        let undone = self.undo(file, &endpoint);
        if let Err(error) = &undone {
            tracing::warn!(%error, endpoint = endpoint.id, "can't be undone now");
            let mut live = LiveEndpoint::new(file, endpoint);
            live.is_abandoned = true;
            self.recover(live);
        }
        undone.is_ok()
    }

    fn recover(&self, live: LiveEndpoint) {
        let file = live.file.clone();
        if !self.endpoints.add(live) {
            tracing::warn!(file, "is a second file of an endpoint");
        }
    }
}

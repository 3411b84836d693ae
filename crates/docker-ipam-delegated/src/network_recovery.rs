//! Start of the network driver: reads what is remembered, and undoes or finishes what an
//! earlier daemon was doing when it was killed.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use anyhow::Result;

use crate::chains::for_plugins;
use crate::command_line::CommandLine;
use crate::endpoint::{Endpoint, LiveEndpoint};
use crate::ipam_driver::remove;
use crate::journal::{Call, Journal, Left};
use crate::memory::Memory;
use crate::network_driver::{NetworkDriver, Stored};
use crate::networks::Network;
use crate::plugin_list::PluginRunner;
use crate::state::lock;
use crate::unanswered::{Unanswered, UnansweredCalls};

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
        unanswered: UnansweredCalls::default(),
        dockerds: AtomicU64::new(0),
    };
    driver.recover_networks()?;
    driver.recover_endpoints()?;
    Ok(Arc::new(driver))
}

impl NetworkDriver {
    fn recover_networks(&self) -> Result<()> {
        for (name, left) in self.memory.networks.load::<Network>()? {
            match left {
                Left::Made(object, unanswered) => {
                    self.note(unanswered, &name);
                    let id = object.id.clone();
                    lock(&self.networks).insert(id, Stored { file: name, object });
                }
                // A network alone holds nothing.
                _ => remove(&self.memory.networks, &name),
            }
        }
        Ok(())
    }

    fn recover_endpoints(&self) -> Result<()> {
        for (name, left) in self.memory.endpoints.load::<Endpoint>()? {
            match left {
                Left::Begun(endpoint) => {
                    if self.is_undone(&name, endpoint) {
                        remove(&self.memory.endpoints, &name);
                    }
                }
                Left::Made(endpoint, unanswered) => {
                    self.note(unanswered, &name);
                    self.recover(&name, endpoint, false);
                }
                Left::Ending(endpoint, call) => {
                    if self.is_undone(&name, endpoint) {
                        let folder = self.memory.endpoints.folder();
                        if let Ok(mut journal) = Journal::<Endpoint>::open(folder, &name) {
                            journal.ended();
                        }
                        self.note_end(call, name);
                    }
                }
                Left::Ended(call) => self.note_end(call, name),
            }
        }
        Ok(())
    }

    /// Undoes an endpoint. If that fails, it is tried again before the next one is made.
    fn is_undone(&self, file: &str, endpoint: Endpoint) -> bool {
        let undone = self.undo(file, &endpoint);
        if let Err(error) = &undone {
            tracing::warn!(%error, endpoint = endpoint.id, "can't be undone now");
            self.recover(file, endpoint, true);
        }
        undone.is_ok()
    }

    fn recover(&self, file: &str, endpoint: Endpoint, is_abandoned: bool) {
        let mut live = LiveEndpoint::new(file, endpoint);
        live.is_abandoned = is_abandoned;
        if !self.endpoints.add(live) {
            tracing::warn!(file, "is a second file of an endpoint");
        }
    }

    fn note(&self, unanswered: Option<(Call, String)>, name: &str) {
        if let Some((call, answer)) = unanswered {
            let (name, is_end) = (name.to_owned(), false);
            let unanswered = Unanswered {
                name,
                answer,
                is_end,
            };
            self.unanswered.put(call, unanswered);
        }
    }

    fn note_end(&self, call: Call, name: String) {
        let (answer, is_end) = ("{}".to_owned(), true);
        let unanswered = Unanswered {
            name,
            answer,
            is_end,
        };
        self.unanswered.put(call, unanswered);
    }
}

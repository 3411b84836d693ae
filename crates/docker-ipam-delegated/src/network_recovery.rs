//! Start of the network driver: reads what is remembered, and undoes or finishes what an
//! earlier daemon was doing when it was killed.

use std::sync::Arc;

use anyhow::Result;

use crate::chains::for_plugins;
use crate::command_line::CommandLine;
use crate::ipam_driver::remove;
use crate::journal::{Call, Journal, Left};
use crate::memory::Memory;
use crate::network_driver::{Endpoint, Network, NetworkDriver, Remembered};
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
        plugins: PluginRunner {
            cni_path: arguments.cni_path.clone(),
            environment: for_plugins(std::env::vars_os()),
        },
        networks: Default::default(),
        endpoints: Default::default(),
        unanswered: UnansweredCalls::default(),
    };
    driver.recover_networks()?;
    driver.recover_endpoints()?;
    Ok(Arc::new(driver))
}

impl NetworkDriver {
    fn recover_networks(&self) -> Result<()> {
        for (name, left) in self.memory.networks.load::<Network>()? {
            match left {
                Left::Made(it, unanswered) => {
                    self.note(unanswered, &name);
                    lock(&self.networks).insert(it.id.clone(), Remembered { name, it });
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
                    if self.is_undone(&endpoint) {
                        remove(&self.memory.endpoints, &name);
                    }
                }
                Left::Made(it, unanswered) => {
                    self.note(unanswered, &name);
                    lock(&self.endpoints).insert(it.id.clone(), Remembered { name, it });
                }
                Left::Ending(endpoint, call) => {
                    if self.is_undone(&endpoint) {
                        let folder = self.memory.endpoints.folder();
                        if let Ok(mut journal) = Journal::<Endpoint>::open(folder, &name) {
                            journal.ended();
                        }
                        self.note_end(call, name);
                    } else {
                        let it = endpoint;
                        lock(&self.endpoints).insert(it.id.clone(), Remembered { name, it });
                    }
                }
                Left::Ended(call) => self.note_end(call, name),
            }
        }
        Ok(())
    }

    fn is_undone(&self, endpoint: &Endpoint) -> bool {
        let undone = self.undo(endpoint);
        if let Err(error) = &undone {
            let id = &endpoint.id;
            tracing::warn!(%error, endpoint = id, "can't be undone now; the next start tries again");
        }
        undone.is_ok()
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

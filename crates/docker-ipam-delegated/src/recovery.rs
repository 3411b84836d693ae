//! Start of the IPAM driver: reads what is remembered, and undoes or finishes what an earlier
//! daemon was doing when it was killed.

use std::fs;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use anyhow::Result;

use crate::chains::{Chains, for_plugins};
use crate::command_line::CommandLine;
use crate::configuration::Folders;
use crate::ipam_driver::{IpamDriver, remove};
use crate::journal::{Call, Journal, Left};
use crate::memory::Memory;
use crate::pool::{Address, Reference};
use crate::pool_choice::PoolChoice;
use crate::state::{Held, State};
use crate::unanswered::{Unanswered, UnansweredCalls};

/// The driver, with what it remembers.
///
/// # Errors
///
/// The memory can't be read.
pub(crate) fn driver(arguments: &CommandLine, memory: Arc<Memory>) -> Result<Arc<IpamDriver>> {
    let choices = arguments.state_dir.join("choices");
    // Nothing in it holds anything.
    let _ = fs::remove_dir_all(&choices);
    let driver = IpamDriver {
        chains: Chains::new(&arguments.cni_path, &for_plugins(std::env::vars_os())),
        choice: PoolChoice {
            conf_dir: arguments.conf_dir.clone(),
            folders: Folders {
                data: arguments.data_dir.clone(),
                records: arguments.state_dir.join("records"),
                cache: arguments.cache_dir.clone(),
            },
            choices,
            default_pools: arguments.default_pools(),
            next: AtomicU64::new(0),
        },
        memory,
        state: State::default(),
        unanswered: UnansweredCalls::default(),
        pool_calls: Mutex::new(()),
    };
    let ending = driver.recover_pools()?;
    driver.recover_addresses()?;
    driver.end_pools(ending);
    tracing::info!(pools = driver.state.pools().len(), "recovered");
    Ok(Arc::new(driver))
}

/// A reference to a pool that was being released.
struct Ending {
    name: String,
    pool: String,
    call: Call,
}

impl IpamDriver {
    /// Reads the references to pools; returns those that were being released, which are
    /// needed until the addresses are read.
    fn recover_pools(&self) -> Result<Vec<Ending>> {
        let mut ending = Vec::new();
        for (name, left) in self.memory.pools.load::<Reference>()? {
            match left {
                // A reference alone holds nothing.
                Left::Begun(_) => remove(&self.memory.pools, &name),
                Left::Made(reference, unanswered) => {
                    self.state.refer(reference.pool, &name);
                    self.note(unanswered, &name);
                }
                Left::Ending(reference, call) => {
                    let pool = self.state.refer(reference.pool, &name).id.clone();
                    ending.push(Ending { name, pool, call });
                }
                Left::Ended(call) => self.note_end(call, name),
            }
        }
        Ok(ending)
    }

    fn recover_addresses(&self) -> Result<()> {
        for (name, left) in self.memory.addresses.load::<Address>()? {
            match left {
                Left::Begun(address) => {
                    if self.let_go(&name, &address) {
                        remove(&self.memory.addresses, &name);
                    }
                }
                Left::Made(address, unanswered) => match self.state.pool(&address.pool) {
                    Some(pool) => {
                        let container_id = address.container_id;
                        if let Some(ip) = address.ip {
                            let name = name.clone();
                            pool.put(ip, Held { name, container_id });
                        }
                        self.note(unanswered, &name);
                    }
                    None => {
                        tracing::warn!(name, pool = address.pool, "an address without its pool");
                    }
                },
                Left::Ending(address, call) => {
                    if self.let_go(&name, &address) {
                        if let Ok(mut journal) =
                            Journal::<Address>::open(self.memory.addresses.folder(), &name)
                        {
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

    /// Finishes the release of pools.
    fn end_pools(&self, ending: Vec<Ending>) {
        for Ending { name, pool, call } in ending {
            let Some(pool) = self.state.pool(&pool) else {
                continue;
            };
            pool.take_reference(Some(&name));
            match self.end_pool(&pool, name.clone(), &call) {
                Ok(_) => self.note_end(call, name),
                Err(error) => tracing::warn!(%error, pool = pool.id, "can't be released"),
            }
        }
    }

    /// Releases what an attachment may hold; true if it could.
    fn let_go(&self, name: &str, address: &Address) -> bool {
        let Some(pool) = self.state.pool(&address.pool) else {
            tracing::warn!(name, pool = address.pool, "an address without its pool");
            return false;
        };
        let held = Held {
            name: name.to_owned(),
            container_id: address.container_id.clone(),
        };
        let released = self.release(&pool, &held);
        if let Err(error) = &released {
            tracing::warn!(%error, name, "can't be released now; the next start tries again");
        }
        released.is_ok()
    }

    fn note(&self, unanswered: Option<(Call, String)>, name: &str) {
        if let Some((call, answer)) = unanswered {
            let (name, is_end) = (name.to_owned(), false);
            self.unanswered.put(
                call,
                Unanswered {
                    name,
                    answer,
                    is_end,
                },
            );
        }
    }

    fn note_end(&self, call: Call, name: String) {
        let (answer, is_end) = ("{}".to_owned(), true);
        self.unanswered.put(
            call,
            Unanswered {
                name,
                answer,
                is_end,
            },
        );
    }
}

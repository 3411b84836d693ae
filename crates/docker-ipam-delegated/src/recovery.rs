//! Start of the IPAM driver: reads what is remembered. What an earlier daemon was doing when
//! it was killed is to be undone or finished: it is left to the releases that wait.

use std::collections::HashMap;
use std::fs;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use anyhow::Result;

use crate::chains::Chains;
use crate::command_line::CommandLine;
use crate::comparison::EarlierAddress;
use crate::configuration::Folders;
use crate::forgotten::Orphan;
use crate::ipam_driver::IpamDriver;
use crate::journal::Stage;
use crate::memory::Memory;
use crate::plugin_environment::for_plugins;
use crate::pool::{Address, Reference};
use crate::pool_choice::PoolChoice;
use crate::releases::{Release, Releases};
use crate::state::{AddressFile, LivePool, State};

/// The driver as its memory has it.
pub(crate) struct Recovered {
    pub(crate) driver: Arc<IpamDriver>,
    /// Addresses whose pools are unknown; `None` if a pool can't be read, and may be
    /// theirs.
    pub(crate) orphans: Option<Vec<Orphan>>,
    /// Addresses that Docker may not have.
    pub(crate) earlier: Vec<EarlierAddress>,
}

/// The driver, with what it remembers. No chain runs.
///
/// # Errors
///
/// The memory can't be read.
pub(crate) fn driver(arguments: &CommandLine, memory: Arc<Memory>) -> Result<Recovered> {
    let choices = arguments.state_dir.join("choices");
    // Nothing in it holds anything.
    let _ = fs::remove_dir_all(&choices);
    let driver = IpamDriver {
        chains: Chains::new(&arguments.cni_path, &for_plugins(std::env::vars_os())),
        choice: PoolChoice {
            conf_dir: arguments.conf_dir.clone(),
            folders: Folders {
                data: arguments.data_dir.clone(),
                records: arguments.records(),
                cache: arguments.cache_dir.clone(),
            },
            choices,
            default_pools: arguments.default_pools.clone(),
            last: Mutex::default(),
            next: AtomicU64::new(0),
        },
        memory,
        state: State::default(),
        releases: Releases::default(),
        adding: Mutex::default(),
    };
    let (ending, is_whole) = driver.recover_pools()?;
    let (orphans, earlier) = driver.recover_addresses(&ending)?;
    for file in driver.state.drop_unused() {
        driver.memory.pools.remove(&file);
    }
    tracing::info!(pools = driver.state.pools().len(), "recovered");
    Ok(Recovered {
        driver: Arc::new(driver),
        orphans: is_whole.then_some(orphans),
        earlier,
    })
}

impl IpamDriver {
    /// Reads the references to pools; returns the pools that were being released, and
    /// whether all could be read.
    fn recover_pools(&self) -> Result<(HashMap<String, Arc<LivePool>>, bool)> {
        let mut ending: HashMap<String, Arc<LivePool>> = HashMap::new();
        let loaded = self.memory.pools.load::<Reference>()?;
        for (file, stage) in loaded.objects {
            match stage {
                // A reference alone holds nothing.
                Stage::Begun(_) => self.memory.pools.remove(&file),
                Stage::Made(reference) => drop(self.state.refer(reference.pool, &file, false)),
                Stage::Answered(reference) => drop(self.state.refer(reference.pool, &file, true)),
                Stage::Ending(Reference { pool }) => {
                    let pool = ending
                        .entry(pool.id())
                        .or_insert_with(|| LivePool::new(pool));
                    self.releases.put_ended(Arc::clone(pool), file.clone());
                }
            }
        }
        Ok((ending, loaded.is_whole))
    }

    /// Reads the addresses; returns those whose pools are unknown, and those that Docker may
    /// not have.
    fn recover_addresses(
        &self,
        ending: &HashMap<String, Arc<LivePool>>,
    ) -> Result<(Vec<Orphan>, Vec<EarlierAddress>)> {
        let mut orphans = Vec::new();
        let mut earlier = Vec::new();
        for (name, stage) in self.memory.addresses.load::<Address>()?.objects {
            let is_answered = matches!(stage, Stage::Answered(_));
            let (address, is_had) = match stage {
                Stage::Begun(address) | Stage::Ending(address) => (address, false),
                Stage::Made(address) | Stage::Answered(address) => (address, true),
            };
            let file = AddressFile {
                name,
                container_id: address.container_id,
            };
            let live = self.state.pool(&address.pool);
            match (live, address.ip, ending.get(&address.pool)) {
                (Some(pool), Some(ip), _) if is_had => {
                    // Docker doesn't name every gateway that it has had.
                    if !is_answered || file.container_id.is_some() {
                        earlier.push(EarlierAddress {
                            pool: pool.id.clone(),
                            subnet: pool.pool.subnet,
                            ip,
                            file: file.name.clone(),
                            is_answered,
                        });
                    }
                    let given = self.state.give(&pool, ip, file);
                    // Two files of one address: the earlier one's was released.
                    for stale in given.unwrap_or_default() {
                        self.memory.addresses.remove(&stale.name);
                    }
                }
                (Some(pool), ip, _) => self.releases.put(Release { pool, ip, file }),
                (None, ip, Some(pool)) => {
                    let pool = Arc::clone(pool);
                    self.releases.put(Release { pool, ip, file });
                }
                (None, _, None) => orphans.push(Orphan {
                    file: file.name,
                    pool: address.pool,
                }),
            }
        }
        Ok((orphans, earlier))
    }
}

/// True if a pool is a network configuration's, by its ID.
pub(crate) fn has_conflist(pool: &str) -> bool {
    let conflist = pool.split('/').nth(1);
    conflist.is_some_and(|it| !it.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pools_id_says_whether_it_is_a_configurations() {
        let id = |conflist| crate::pool::tests::pool("10.1.0.0/16", None, conflist).id();
        assert!(has_conflist(&id(Some("web"))));
        assert!(!has_conflist(&id(None)));
    }
}

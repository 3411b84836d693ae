//! Start of the IPAM driver: reads what is remembered. What an earlier daemon was doing when
//! it was killed is to be undone or finished: it is left to the releases that wait.

use std::fs;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use anyhow::Result;
use tokio::sync::Notify;

use crate::command_line::CommandLine;
use crate::ipam::chain_config::Folders;
use crate::ipam::chains::Chains;
use crate::ipam::ipam_driver::IpamDriver;
use crate::ipam::live_pools::{AddressFile, LivePool, State};
use crate::ipam::plugin_environment::for_plugins;
use crate::ipam::pool_choice::PoolChoice;
use crate::ipam::waiting_releases::{Release, Releases};
use crate::lock::lock;
use crate::state::journal::Stage;
use crate::state::memory::Memory;
use crate::state::pool::{Address, Reference};

/// The driver, with what it remembers. No chain runs.
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
        without_pool: Mutex::default(),
        releases: Releases::default(),
        adding: Mutex::default(),
        compare: Notify::new(),
    };
    // A pool comes before its addresses.
    for (file, stage) in driver.memory.pools.load()? {
        driver.take_in_pool(file, stage);
    }
    for (file, stage) in driver.memory.addresses.load()? {
        driver.take_in_address(file, stage);
    }
    tracing::info!(pools = driver.state.pools().len(), "recovered");
    Ok(Arc::new(driver))
}

impl IpamDriver {
    /// Takes in a reference to a pool, as its file has it.
    pub(crate) fn take_in_pool(&self, file: String, stage: Stage<Reference>) {
        match stage {
            // A reference alone holds nothing.
            Stage::Begun(_) => self.memory.pools.remove(&file),
            Stage::Made(reference) => drop(self.state.refer(reference.pool, &file, false)),
            Stage::Answered(reference) => drop(self.state.refer(reference.pool, &file, true)),
            Stage::Ending(Reference { pool }) => {
                let ended = self.releases.ended(&pool.id());
                let ended = ended.unwrap_or_else(|| LivePool::new(pool));
                self.releases.put_ended(ended, file);
            }
        }
    }

    /// Takes in an address, as its file has it.
    pub(crate) fn take_in_address(&self, name: String, stage: Stage<Address>) {
        let is_sure = matches!(stage, Stage::Answered(_));
        let (address, is_had) = match stage {
            // Docker never had it, or has given it back.
            Stage::Begun(address) | Stage::Ending(address) => (address, false),
            Stage::Made(address) | Stage::Answered(address) => (address, true),
        };
        let file = AddressFile {
            name,
            container_id: address.container_id.clone(),
            is_sure,
        };
        let live = self.state.pool(&address.pool);
        // Docker has given the whole pool back.
        let ended = || self.releases.ended(&address.pool);
        match (live, address.ip) {
            (Some(pool), Some(ip)) if is_had => {
                let _ = self.state.recover(&pool.id, ip, file);
            }
            (Some(pool), ip) => self.releases.put(Release { pool, ip, file }),
            (None, ip) => match ended() {
                Some(pool) => self.releases.put(Release { pool, ip, file }),
                None => {
                    lock(&self.without_pool).insert(file.name, address);
                }
            },
        }
    }
}

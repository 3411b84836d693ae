//! The daemon's memory for tools: a read-only view, which waits for no lock and makes nothing.

use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use cni::{ContainerId, LinkedPlugin, NetworkConfig, StateFolder};
use ipam::IpNet;
use serde::de::DeserializeOwned;

use crate::chains;
use crate::configuration;
use crate::endpoint::Endpoint;
use crate::journal::Stage;
use crate::memory;
use crate::pool::{Address, Reference};

/// The plugins that chains of Docker's networks run without an executable.
pub const LINKED: &[&(dyn LinkedPlugin + 'static)] = &chains::LINKED;

/// The folder below the daemon's state folder that has the records of networks without a
/// network configuration.
pub const RECORDS: &str = "records";

/// What the daemon remembers.
#[derive(Debug, Default)]
pub struct Remembered {
    /// The pools that Docker has; one of several references each.
    pub pools: Vec<RememberedPool>,
    /// The attachments that hold addresses of them.
    pub addresses: Vec<RememberedAddress>,
    /// The endpoints of the network driver.
    pub endpoints: Vec<RememberedEndpoint>,
    /// Files that can't be read, each with the reason.
    pub problems: Vec<(PathBuf, String)>,
}

/// A pool.
#[derive(Debug)]
pub struct RememberedPool {
    /// Its ID in Docker's calls.
    pub id: String,
    /// The file of its reference.
    pub file: PathBuf,
    /// Its subnet.
    pub subnet: IpNet,
    /// The configuration of its chain, with the pool as `ipam.ranges`; `None` if a network
    /// configuration has the pool.
    pub config: Option<NetworkConfig>,
}

/// An address.
#[derive(Debug)]
pub struct RememberedAddress {
    /// The attachment that holds it.
    pub container_id: ContainerId,
    /// The ID of its pool.
    pub pool: String,
    /// The address; `None` while it is being requested.
    pub ip: Option<IpAddr>,
}

/// An endpoint.
#[derive(Debug)]
pub struct RememberedEndpoint {
    /// The container ID that its plugins were told.
    pub container_id: String,
    /// Docker's ID.
    pub id: String,
    /// Docker's ID of its network.
    pub network: String,
}

/// Reads the memory in the state folder of a daemon; `None` if there is none.
///
/// # Errors
///
/// The system's, for a folder.
pub fn remembered(state_dir: &Path) -> io::Result<Option<Remembered>> {
    let root = memory::path(state_dir);
    match StateFolder::open(&root) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    }
    let mut it = Remembered::default();
    for (file, Reference { pool }) in it.read::<Reference>(&root.join(memory::POOLS))? {
        let id = pool.id();
        if it.pools.iter().all(|known| known.id != id) {
            it.pools.push(RememberedPool {
                id,
                file,
                subnet: pool.subnet,
                config: configuration::with_ranges(&pool),
            });
        }
    }
    for (_, address) in it.read::<Address>(&root.join(memory::ADDRESSES))? {
        // The gateway is nobody's.
        if let Some(container_id) = address.container_id {
            it.addresses.push(RememberedAddress {
                container_id,
                pool: address.pool,
                ip: address.ip,
            });
        }
    }
    for (_, endpoint) in it.read::<Endpoint>(&root.join(memory::ENDPOINTS))? {
        it.endpoints.push(RememberedEndpoint {
            container_id: endpoint.conf.container_id,
            id: endpoint.id,
            network: endpoint.network,
        });
    }
    Ok(Some(it))
}

impl Remembered {
    /// The objects of a folder.
    fn read<T: DeserializeOwned>(&mut self, folder: &Path) -> io::Result<Vec<(PathBuf, T)>> {
        let mut found = Vec::new();
        for (name, stage) in memory::read(folder)? {
            let file = folder.join(name);
            match stage {
                Ok(Some(
                    Stage::Begun(it) | Stage::Made(it) | Stage::Answered(it) | Stage::Ending(it),
                )) => {
                    found.push((file, it));
                }
                Ok(None) => {}
                Err(reason) => self.problems.push((file, reason)),
            }
        }
        Ok(found)
    }
}

/// True if a container ID is one that the daemon makes for an attachment.
pub fn is_attachment(container_id: &str) -> bool {
    memory::is_attachment(container_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_folder_without_memory_is_told_from_an_empty_memory() {
        let state = tempfile::tempdir().unwrap();
        assert!(remembered(state.path()).unwrap().is_none());
        memory::Memory::open(state.path()).unwrap();
        assert!(remembered(state.path()).unwrap().unwrap().pools.is_empty());
    }
}

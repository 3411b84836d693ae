//! The daemon's memory for tools: a read-only view, which waits for no lock and makes nothing.

use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use cni::{ContainerId, NetworkConfig};
use ipam::IpNet;
use serde::de::DeserializeOwned;
use state_files::StateFolder;

use crate::state::endpoint::Endpoint;
use crate::state::journal::Stage;
use crate::state::memory;
use crate::state::pool::{Address, Reference};

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
    /// The file of its first reference.
    pub file: PathBuf,
    /// The names of the files of all references that Docker may have.
    pub references: Vec<String>,
    /// The name of its chain's network.
    pub network: String,
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
    for (file, stage) in it.read::<Reference>(&root.join(memory::POOLS))? {
        // The daemon is releasing it.
        let is_ending = matches!(stage, Stage::Ending(_));
        let Reference { pool } = stage.into_object();
        let id = pool.id();
        let i = it.pools.iter().position(|known| known.id == id);
        let i = i.unwrap_or_else(|| {
            let network = pool.release_config();
            it.pools.push(RememberedPool {
                id,
                file: file.clone(),
                references: Vec::new(),
                network: network.map_or_else(|_| String::new(), |it| it.name().to_string()),
                subnet: pool.subnet,
                config: pool.config_with_ranges(),
            });
            it.pools.len() - 1
        });
        let name = file.file_name().and_then(|it| it.to_str());
        let name = name.filter(|_| !is_ending).map(str::to_owned);
        it.pools[i].references.extend(name);
    }
    for (_, address) in it.read::<Address>(&root.join(memory::ADDRESSES))? {
        let address = address.into_object();
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
        let endpoint = endpoint.into_object();
        it.endpoints.push(RememberedEndpoint {
            container_id: endpoint.conf.container_id,
            id: endpoint.id,
            network: endpoint.network,
        });
    }
    Ok(Some(it))
}

impl Remembered {
    /// The objects of a folder, each with its stage.
    fn read<T: DeserializeOwned>(&mut self, folder: &Path) -> io::Result<Vec<(PathBuf, Stage<T>)>> {
        let mut found = Vec::new();
        for (name, stage) in memory::read(folder)? {
            let file = folder.join(name);
            match stage {
                Ok(Some(stage)) => found.push((file, stage)),
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

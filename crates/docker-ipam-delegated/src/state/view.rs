//! What a daemon remembers, for tools: a read-only view, which waits for no lock and makes
//! nothing.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use cni::{ContainerId, NetworkConfig};
use ipam::IpNet;
use state_files::StateFolder;

use crate::state::address_record::{self, AddressRecord};
use crate::state::endpoint;
use crate::state::files::{self, Stage, Stored};
use crate::state::pool::Pool;

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

/// Reads what a daemon remembers in this state folder; `None` if it has no files there.
///
/// # Errors
///
/// An I/O error of a folder.
pub fn remembered(state_dir: &Path) -> io::Result<Option<Remembered>> {
    let root = files::path(state_dir);
    match StateFolder::open(&root) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    }
    let mut all = Remembered::default();
    let mut folders = BTreeSet::new();
    let pools = root.join(files::POOLS);
    for (name, content) in files::read::<Pool>(&pools)? {
        match content {
            Ok(Some(stored)) => {
                folders.extend(stored.object.records());
                all.add_reference(pools.join(&stored.file), &stored);
            }
            Ok(None) => {}
            Err(reason) => all.problems.push((pools.join(name), reason)),
        }
    }
    for (folder, network) in folders {
        all.add_addresses(address_record::read_all(&folder, &network)?);
    }
    for record in endpoint::read_all(&endpoint::records(state_dir))? {
        match record.content {
            Ok(None) => {}
            Ok(Some((endpoint, _))) => all.endpoints.push(RememberedEndpoint {
                container_id: endpoint.container_id(),
                id: endpoint.plugged.id,
                network: endpoint.plugged.network,
            }),
            Err(reason) => {
                let folder = endpoint::records(state_dir).join(record.network.as_str());
                let file = folder.join(record.attachment.container_id.as_str());
                all.problems.push((file, reason));
            }
        }
    }
    Ok(Some(all))
}

impl Remembered {
    fn add_reference(&mut self, file: PathBuf, stored: &Stored<Pool>) {
        let pool = &stored.object;
        let id = pool.id();
        // The daemon is releasing it.
        let is_ending = stored.stage == Stage::Ending;
        let reference = (!is_ending).then(|| stored.file.clone());
        if let Some(known) = self.pools.iter_mut().find(|known| known.id == id) {
            known.references.extend(reference);
            return;
        }
        let network = pool.release_config();
        self.pools.push(RememberedPool {
            id,
            file,
            references: reference.into_iter().collect(),
            network: network.map_or_else(|_| String::new(), |config| config.name().to_string()),
            subnet: pool.subnet,
            config: pool.config_with_ranges(),
        });
    }

    /// Adds the addresses whose pools are known.
    fn add_addresses(&mut self, records: Vec<AddressRecord>) {
        for record in records {
            let content = match record.content {
                Ok(Some(content)) => content,
                Ok(None) => continue,
                Err(reason) => {
                    self.problems.push((record.file, reason));
                    continue;
                }
            };
            let mut pools = self.pools.iter();
            let Some(pool) = pools.find(|pool| content.pool.as_ref() == Some(&pool.id)) else {
                continue;
            };
            let mut ips = content.ips.into_iter();
            self.addresses.push(RememberedAddress {
                container_id: record.container_id,
                pool: pool.id.clone(),
                ip: ips.find(|ip| pool.subnet.contains(ip)),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_folder_without_files_is_told_from_one_without_objects() {
        let state = tempfile::tempdir().unwrap();
        assert!(remembered(state.path()).unwrap().is_none());
        files::Files::open(state.path()).unwrap();
        assert!(remembered(state.path()).unwrap().unwrap().pools.is_empty());
    }
}

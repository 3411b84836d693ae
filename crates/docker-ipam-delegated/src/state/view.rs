//! A read-only view of a daemon's memory, for tools. It waits for no lock and creates no file.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use chain::record::{AttachmentRecord, ListedRecord, networks};
use cni::{ContainerId, NetworkConfig, NetworkName};
use ipam::IpNet;
use state_files::StateFolder;

use crate::state::endpoint;
use crate::state::files::{self, Stage, Stored};
use crate::state::pool::Pool;
use crate::state::record::{RecordedAddress, is_address, read_all};

/// The folder below the daemon's state folder that has the records of networks without a
/// network configuration.
pub const RECORDS: &str = "records";

/// The daemon's memory.
#[derive(Debug, Default)]
pub struct Remembered {
    /// The pools, each one once, however many references it has.
    pub pools: Vec<RememberedPool>,
    /// The attachments that hold addresses of these pools.
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
    /// The subnet of its pool.
    pub subnet: IpNet,
    /// The address; `None` while it is being requested.
    pub ip: Option<IpAddr>,
}

/// An endpoint.
#[derive(Clone, Debug)]
pub struct RememberedEndpoint {
    /// The container ID that its plugins were told.
    pub container_id: String,
    /// Docker's ID.
    pub id: String,
    /// Docker's ID of its network.
    pub network: String,
}

/// Reads a daemon's memory in this state folder; `None` if there are no files.
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
            Ok(Some(stored)) => folders.extend(all.add_reference(pools.join(name), stored)),
            Ok(None) => {}
            Err(reason) => all.problems.push((pools.join(name), reason)),
        }
    }
    for (folder, network) in folders {
        let (mut records, _) = read_all(&folder, &network)?;
        records.retain(|record| is_address(&record.attachment));
        records
            .into_iter()
            .for_each(|record| all.add_address(record));
    }
    let folder = endpoint::records(state_dir);
    for network in networks(&folder)? {
        let (records, _) = read_all(&folder, &network)?;
        records
            .into_iter()
            .for_each(|record| all.add_endpoint(record));
    }
    Ok(Some(all))
}

impl Remembered {
    /// Adds a reference to a pool. Returns the folder of the pool's records and the network in
    /// it, if they are known.
    fn add_reference(
        &mut self,
        file: PathBuf,
        stored: Stored<Pool>,
    ) -> Option<(PathBuf, NetworkName)> {
        let pool = stored.object;
        let id = pool.id();
        let chain = pool.chain().ok();
        // The daemon is releasing this reference.
        let is_ending = stored.stage == Stage::Ending;
        let reference = (!is_ending).then_some(stored.file);
        let folder = chain.map(|chain| (chain.records, chain.config.name().clone()));
        match self.pools.iter_mut().find(|known| known.id == id) {
            Some(known) => known.references.extend(reference),
            None => self.pools.push(RememberedPool {
                id,
                file,
                references: reference.into_iter().collect(),
                network: folder
                    .as_ref()
                    .map_or_else(String::new, |(_, name)| name.to_string()),
                subnet: pool.subnet,
                config: pool.config_with_ranges(),
            }),
        }
        folder
    }

    /// Adds an address if its pool is known.
    fn add_address(&mut self, record: ListedRecord) {
        let container_id = record.attachment.container_id.clone();
        let Some(content) = self.content(record) else {
            return;
        };
        let content = RecordedAddress::from(content);
        let mut pools = self.pools.iter();
        if let Some(pool) = pools.find(|pool| content.pool.as_ref() == Some(&pool.id)) {
            let mut ips = content.ips.into_iter();
            self.addresses.push(RememberedAddress {
                container_id,
                subnet: pool.subnet,
                ip: ips.find(|ip| pool.subnet.contains(ip)),
            });
        }
    }

    fn add_endpoint(&mut self, record: ListedRecord) {
        let file = record.file.clone();
        match self.content(record).map(endpoint::endpoint) {
            Some(Ok(endpoint)) => self.endpoints.push(RememberedEndpoint {
                container_id: endpoint.container_id(),
                id: endpoint.plugged.id,
                network: endpoint.plugged.network,
            }),
            Some(Err(reason)) => self.problems.push((file, reason)),
            None => {}
        }
    }

    /// The content of a record; one that can't be read is a problem.
    fn content(&mut self, record: ListedRecord) -> Option<AttachmentRecord> {
        let content = record.content.map_err(|reason| (record.file, reason));
        content.map_err(|problem| self.problems.push(problem)).ok()
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

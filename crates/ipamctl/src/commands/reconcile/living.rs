//! Finds the addresses of a cluster's pools that attachments of this node use, by the chain's
//! records.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use chain::record::{AttachmentRecord, ListedRecord, RecordState, is_locked, networks, records};
use cluster::HeldKey;
use cni::{IpamResult, NetworkName, Object};

use super::same_cluster::SameCluster;
use crate::node::Node;

/// Pause after which a record is looked at again.
const PAUSE: Duration = Duration::from_millis(20);

/// An address that an attachment of this node has, and the record that says so.
#[derive(Clone, Debug)]
pub(super) struct Living {
    pub(super) held: HeldKey,
    pub(super) record: PathBuf,
}

/// The addresses of all records of the node, and the records and folders that don't tell what
/// attachments hold, with the reasons.
#[derive(Debug, Default)]
pub(super) struct LivingAddresses {
    pub(super) addresses: Vec<Living>,
    pub(super) problems: Vec<String>,
}

impl LivingAddresses {
    /// Reads the records. Calls that work on them are waited for, until then.
    pub(super) fn read(node: &Node, cluster: &mut SameCluster<'_>, until: Instant) -> Self {
        let mut found = Self::default();
        for state_dir in node.state_dirs() {
            let networks = networks(&state_dir);
            for network in found.known_or_empty(&state_dir, networks) {
                let records = with_locks(&state_dir, &network, until);
                let path = state_dir.join(network.as_str());
                for (record, is_running) in found.known_or_empty(&path, records) {
                    match addresses(cluster, &record, is_running) {
                        Ok(addresses) => found.addresses.extend(addresses),
                        Err(reason) => {
                            let file = record.file.display();
                            found.problems.push(format!("{file}: {reason}"));
                        }
                    }
                }
            }
        }
        found
    }

    /// The values that were read at this path; none if it can't be read, which is a problem.
    fn known_or_empty<T>(&mut self, path: &Path, read: io::Result<Vec<T>>) -> Vec<T> {
        read.unwrap_or_else(|error| {
            self.problems.push(format!("{}: {error}", path.display()));
            Vec::new()
        })
    }
}

/// The records of a network, and whether the call that works on each has not ended until then.
///
/// Calls that begin meanwhile are not waited for: they find this node's mark.
fn with_locks(
    state_dir: &Path,
    network: &NetworkName,
    until: Instant,
) -> io::Result<Vec<(ListedRecord, bool)>> {
    let mut running = BTreeSet::new();
    for record in records(state_dir, network)? {
        while is_locked(&record.file)? {
            if Instant::now() >= until {
                running.insert(record.attachment);
                break;
            }
            sleep(PAUSE);
        }
    }
    // The locks first: what a call that ends meanwhile has written is read after.
    let records = records(state_dir, network)?.into_iter();
    let with_lock = records.map(|record| {
        let is_running = running.contains(&record.attachment);
        (record, is_running)
    });
    Ok(with_lock.collect())
}

/// The addresses of this cluster in one record.
fn addresses(
    cluster: &mut SameCluster<'_>,
    record: &ListedRecord,
    is_running: bool,
) -> Result<Vec<Living>, String> {
    let content = record.content.as_ref().map_err(String::clone)?;
    let allocator = cluster.allocator();
    let mut names = content
        .delegates
        .iter()
        .map(|delegate| delegate.name.as_str());
    if !names.any(|name| name == allocator) || !is_of(cluster, record, content)? {
        return Ok(Vec::new());
    }
    let mut living = Vec::new();
    let mut given = None;
    for (number, delegate) in content.delegates.iter().enumerate() {
        let answered = delegate.result.as_deref();
        if delegate.name.as_str() == allocator {
            match (answered, content.state) {
                (Some(answered), _) => {
                    let read = |raw| IpamResult::read("result", raw).map_err(|error| error.msg);
                    let given = given.map_or_else(|| Ok(IpamResult::default()), read)?;
                    for (pool, ip) in pairs(&record.network, &given, &read(answered)?)? {
                        let held = HeldKey {
                            node: cluster.node().to_owned(),
                            network: record.network.clone(),
                            attachment: record.attachment.clone(),
                            pool,
                            ip,
                        };
                        let record = record.file.clone();
                        living.push(Living { held, record });
                    }
                }
                // The engine may have given it an address before it was restored.
                (None, RecordState::Adding) if is_running => {
                    return Err("its ADD is running: run this again when it has ended".to_owned());
                }
                // The runtime was given no address.
                (None, RecordState::Adding | RecordState::Deleting)
                    if !content.has_answered(number) => {}
                (None, _) => return Err(format!("it has no answer of {}", delegate.name)),
            }
        }
        given = answered;
    }
    Ok(living)
}

/// True if the record's ADD has asked this cluster.
fn is_of(
    cluster: &mut SameCluster<'_>,
    record: &ListedRecord,
    content: &AttachmentRecord,
) -> Result<bool, String> {
    let config = content.config().ok_or("it has no configuration")?;
    let recorded = cluster.read(&config.ipam().map_err(|error| error.msg)?)?;
    let is_same = cluster.is(&record.network, &*recorded)?;
    let name = &recorded.node().name;
    if is_same && name != cluster.node() {
        return Err(format!("it is of node {name}, another name"));
    }
    Ok(is_same)
}

/// The pools that an allocator was given, each with the address that it has answered.
fn pairs(
    network: &NetworkName,
    given: &IpamResult,
    answered: &IpamResult,
) -> Result<Vec<(NetworkName, IpAddr)>, String> {
    let pools = ipam::pools_of_result(given).map_err(|error| error.msg)?;
    let new = answered.ips.iter().skip(given.ips.len());
    let ips: Vec<IpAddr> = new.map(cni::IpConfig::ip).collect();
    let (addresses, number) = (ips.len(), pools.len());
    if number != addresses {
        return Err(format!("it has {addresses} addresses of {number} pools"));
    }
    let name = |pool: &Object| -> Result<NetworkName, String> {
        let name: Option<NetworkName> = pool.read("pools", "name").map_err(|error| error.msg)?;
        Ok(name.unwrap_or_else(|| network.clone()))
    };
    let both = pools.iter().zip(ips);
    both.map(|(pool, ip)| Ok((name(pool)?, ip))).collect()
}

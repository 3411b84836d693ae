//! Finds the addresses of a cluster's pools that this node uses, by the chain's records.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use chain::record::{AttachmentRecord, ListedRecord, RecordState, is_locked, records};
use cluster::HeldKey;
use cni::{IpamResult, NetworkName, Object};
use conflist::Problem;

use super::same_cluster::SameCluster;
use crate::node::{Node, known_or_empty};

/// Pause before a lock is tested again.
const PAUSE: Duration = Duration::from_millis(20);

/// An address of an attachment on this node, and its record.
#[derive(Clone, Debug)]
pub(super) struct Living {
    pub(super) held: HeldKey,
    pub(super) record: PathBuf,
}

/// Reads the addresses of all records of the node, and the reasons why some are unknown. Waits for
/// running calls of their attachments until `until`.
pub(super) fn living(
    node: &Node,
    cluster: &mut SameCluster<'_>,
    until: Instant,
) -> (Vec<Living>, Vec<Problem>) {
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    for (state_dir, network) in node.recorded_networks(&mut problems) {
        let records = with_locks(&state_dir, &network, until);
        let path = state_dir.join(network.as_str());
        for (record, is_running) in known_or_empty(&path, records, &mut problems) {
            match addresses(cluster, &record, is_running) {
                Ok(addresses) => found.extend(addresses),
                Err(reason) => problems.push(Problem::new(&record.file, reason)),
            }
        }
    }
    (found, problems)
}

/// The records of a network, each with true if a call of its attachment is still running at `until`.
///
/// Calls that begin meanwhile find this node's mark, so there is no wait for them.
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
    // After the locks, so that lines of calls that end meanwhile are read.
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
    let allocator = cluster.cluster.kind.allocator;
    let mut names = content.delegates.iter().map(|of| of.name.as_str());
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
                            node: cluster.cluster.node().name.clone(),
                            network: record.network.clone(),
                            attachment: record.attachment.clone(),
                            pool,
                            ip,
                        };
                        let record = record.file.clone();
                        living.push(Living { held, record });
                    }
                }
                // The engine may have given it an address before the restore.
                (None, RecordState::Adding) if is_running => {
                    return Err("its ADD is running: run this again when it has ended".to_owned());
                }
                // The runtime got no address.
                (None, RecordState::Adding | RecordState::Deleting)
                    if !content.has_answered(number) => {}
                (None, _) => return Err(format!("it has no answer of {}", delegate.name)),
            }
        }
        given = answered;
    }
    Ok(living)
}

/// True if the record's ADD used this cluster.
fn is_of(
    cluster: &mut SameCluster<'_>,
    record: &ListedRecord,
    content: &AttachmentRecord,
) -> Result<bool, String> {
    let config = content.config().ok_or("it has no configuration")?;
    let recorded = config
        .ipam()
        .and_then(|ipam| (cluster.cluster.kind.read)(&ipam, cluster.environment));
    let recorded = recorded.map_err(|error| error.msg)?;
    let is_same = cluster.is(&record.network, &*recorded)?;
    let name = &recorded.node().name;
    if is_same && *name != cluster.cluster.node().name {
        return Err(format!("it is of node {name}, another name"));
    }
    Ok(is_same)
}

/// The allocator's pools, each with its address in the answer.
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

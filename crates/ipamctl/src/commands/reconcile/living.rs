//! Finds the addresses of a cluster's pools that attachments of this node use, by the chain's
//! records.

use crate::node::Node;
use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use chain::record::{
    AttachmentRecord, DelegateAnswer, ListedRecord, RecordState, is_locked, networks, records,
};
use cni::{Attachment, IpamResult, NetworkName};

use super::same_cluster::SameCluster;

/// An address that an attachment of this node has.
#[derive(Clone, Debug)]
pub(super) struct Living {
    pub(super) network: NetworkName,
    pub(super) attachment: Attachment,
    pub(super) pool: String,
    pub(super) ip: IpAddr,
    /// The record that says so.
    pub(super) record: PathBuf,
}

/// The addresses of all records of the node. A record that doesn't tell what its attachment
/// holds is a problem.
pub(super) fn by_records(
    node: &Node,
    this_node: &str,
    cluster: &mut SameCluster<'_>,
    problems: &mut Vec<String>,
) -> Vec<Living> {
    let mut living = Vec::new();
    for state_dir in node.state_dirs() {
        let networks = networks(&state_dir);
        for network in known_or_empty(&state_dir, networks, problems) {
            let path = state_dir.join(network.as_str());
            // The locks first: what a call that ends meanwhile has written is read after.
            let listed = running(&state_dir, &network)
                .and_then(|running| Ok(vec![(running, records(&state_dir, &network)?)]));
            for (running, records) in known_or_empty(&path, listed, problems) {
                for record in records {
                    let is_running = running.contains(&record.attachment);
                    match of_record(this_node, cluster, &network, &record, is_running) {
                        Ok(addresses) => living.extend(addresses),
                        Err(reason) => {
                            problems.push(format!("{}: {reason}", record.file.display()));
                        }
                    }
                }
            }
        }
    }
    living
}

/// The values that were read at this path; none if it can't be read, which is a problem.
fn known_or_empty<T>(path: &Path, read: io::Result<Vec<T>>, problems: &mut Vec<String>) -> Vec<T> {
    read.unwrap_or_else(|error| {
        problems.push(format!("{}: {error}", path.display()));
        Vec::new()
    })
}

/// The attachments that a call works on.
fn running(state_dir: &Path, network: &NetworkName) -> io::Result<BTreeSet<Attachment>> {
    let mut running = BTreeSet::new();
    for record in records(state_dir, network)? {
        if is_locked(&record.file)? {
            running.insert(record.attachment);
        }
    }
    Ok(running)
}

/// The addresses of this cluster in one record.
fn of_record(
    this_node: &str,
    cluster: &mut SameCluster<'_>,
    network: &NetworkName,
    record: &ListedRecord,
    is_running: bool,
) -> Result<Vec<Living>, String> {
    let content = record.content.as_ref().map_err(String::clone)?;
    let allocator = cluster.allocator();
    let is_allocator = |delegate: &DelegateAnswer| delegate.name.as_str() == allocator;
    let has_allocator = content.delegates.iter().any(is_allocator);
    if !has_allocator || !is_of(this_node, cluster, network, content)? {
        return Ok(Vec::new());
    }
    let mut living = Vec::new();
    let mut given = None;
    for delegate in &content.delegates {
        let answered = delegate.result.as_deref();
        if is_allocator(delegate) {
            match (answered, content.state) {
                (Some(answered), _) => {
                    let read = |raw| IpamResult::read("result", raw).map_err(|error| error.msg);
                    let given = given.map_or_else(|| Ok(IpamResult::default()), read)?;
                    for (pool, ip) in pairs(network, &given, &read(answered)?)? {
                        living.push(Living {
                            network: network.clone(),
                            attachment: record.attachment.clone(),
                            pool,
                            ip,
                            record: record.file.clone(),
                        });
                    }
                }
                // The engine may have given it an address before it was restored.
                (None, RecordState::Adding) if is_running => {
                    return Err("its ADD is running: run this again when it has ended".to_owned());
                }
                // The runtime was given no address.
                (None, RecordState::Adding) => {}
                (None, _) => return Err(format!("it has no answer of {}", delegate.name)),
            }
        }
        given = answered;
    }
    Ok(living)
}

/// True if the record's ADD has asked this cluster.
fn is_of(
    this_node: &str,
    cluster: &mut SameCluster<'_>,
    network: &NetworkName,
    content: &AttachmentRecord,
) -> Result<bool, String> {
    let config = content.config().ok_or("it has no configuration")?;
    let ipam = config.ipam().map_err(|error| error.msg)?;
    let recorded = cluster.read(&ipam)?;
    let is_same = cluster.is(network, &*recorded)?;
    let name = &recorded.node().name;
    if is_same && name != this_node {
        return Err(format!("it is of node {name}, another name"));
    }
    Ok(is_same)
}

/// The pools that an allocator was given, each with the address that it has answered.
fn pairs(
    network: &NetworkName,
    given: &IpamResult,
    answered: &IpamResult,
) -> Result<Vec<(String, IpAddr)>, String> {
    let pools = ipam::pools_of_result(given).map_err(|error| error.msg)?;
    let new = answered.ips.iter().skip(given.ips.len());
    let ips: Vec<IpAddr> = new.map(cni::IpConfig::ip).collect();
    if pools.len() != ips.len() {
        return Err(format!(
            "it has {} addresses of {} pools",
            ips.len(),
            pools.len()
        ));
    }
    let name = |pool: &cni::Object| -> Result<String, String> {
        let name: Option<NetworkName> = pool.read("pools", "name").map_err(|error| error.msg)?;
        Ok(name.as_ref().unwrap_or(network).to_string())
    };
    let both = pools.iter().zip(ips);
    both.map(|(pool, ip)| Ok((name(pool)?, ip))).collect()
}

//! Reads one address and its holder, without the files of all others.

use std::net::IpAddr;

use cni::{Attachment, NetworkName};
use reservations::State;
use reservations::view::{ListedAddress, address, directories};

use crate::node::Node;
use crate::node::directory::Directory;
use crate::node::held_address::answered;
use crate::node::inventory::Inventory;
use crate::node::record::NetworkRecord;

/// Everything that the holders of this address hold. `None` if a holder has no record, so that
/// only the files of all addresses say what else it holds, or if something can't be read.
pub(crate) fn inventory_of(node: &Node, ip: IpAddr) -> Option<Inventory> {
    // In a cluster, all addresses of the node are one request.
    if !node.clusters.is_empty() {
        return None;
    }
    let mut inventory = Inventory::of_conflists(node);
    for data_dir in node.data_dirs() {
        for name in directories(&data_dir).ok()? {
            let path = data_dir.join(name.as_str());
            let listed = address(&path, ip).ok()?.into_iter().collect();
            inventory.add_directory(Directory::of_files(path, name, listed));
        }
    }
    let directories = inventory.directories.iter();
    let holders: Vec<_> = directories
        .flat_map(|directory| &directory.listed)
        .collect();
    if holders.is_empty() {
        return None;
    }
    let records = holders.into_iter().map(|listed| record(node, listed));
    inventory.records = records.collect::<Option<_>>()?;
    let records = &inventory.records;
    let others: Vec<IpAddr> = records.iter().flat_map(answered).collect();
    let is_of_holders = |listed: &ListedAddress| {
        holder(listed).is_some_and(|(network, attachment)| {
            let mut records = records.iter();
            records.any(|of| of.network == network && of.listed.attachment == attachment)
        })
    };
    for directory in &mut inventory.directories {
        for other in others.iter().filter(|other| **other != ip) {
            directory
                .listed
                .extend(address(&directory.path, *other).ok()?);
        }
        directory.listed.sort_unstable_by_key(|listed| listed.ip);
        directory.listed.dedup();
        directory.listed.retain(is_of_holders);
    }
    inventory.docker = node.ask_docker();
    inventory.warn();
    Some(inventory)
}

/// Network and attachment of a reservation.
fn holder(listed: &ListedAddress) -> Option<(NetworkName, Attachment)> {
    let State::Reserved(holder) = &listed.state else {
        return None;
    };
    let attachment = Attachment {
        container_id: holder.container_id.parse().ok()?,
        ifname: holder.ifname.as_ref()?.parse().ok()?,
    };
    Some((listed.network.as_ref()?.parse().ok()?, attachment))
}

/// The record of the holder of a reservation.
fn record(node: &Node, listed: &ListedAddress) -> Option<NetworkRecord> {
    let (network, attachment) = holder(listed)?;
    let listed = node
        .state_dirs()
        .iter()
        .find_map(|state_dir| chain::record::record_of(state_dir, &network, &attachment).ok()?)?;
    Some(NetworkRecord { network, listed })
}

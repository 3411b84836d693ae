//! One address and its holder, without reading the files of all others.

use std::net::IpAddr;

use cni::{Attachment, NetworkName};
use reservations::State;
use reservations::view::ListedAddress;

use crate::node::Node;
use crate::node::held_address::Holding;
use crate::node::inventory::{Directory, Inventory, NetworkRecord};

/// The inventory of what the holders of this address hold; `None` if a holder has no
/// record, so that only the files of all addresses say what else it holds, or if something
/// can't be read.
pub(crate) fn inventory_of(node: &Node, ip: IpAddr) -> Option<Inventory> {
    // In etcd, all addresses of the node are one request.
    if !node.clusters.is_empty() {
        return None;
    }
    let mut it = Inventory::of_conflists(node);
    for data_dir in node.data_dirs() {
        for name in reservations::view::directories(&data_dir).ok()? {
            let path = data_dir.join(name.as_str());
            let listed = reservations::view::address(&path, ip).ok()?;
            it.add_directory(Directory {
                path,
                shared_by: None,
                name,
                taken: Vec::new(),
                listed: listed.into_iter().collect(),
            });
        }
    }
    let holders: Vec<&ListedAddress> = it.directories.iter().flat_map(|it| &it.listed).collect();
    if holders.is_empty() {
        return None;
    }
    let records = holders.into_iter().map(|listed| record(node, listed));
    it.records = records.collect::<Option<_>>()?;
    let mut others: Vec<IpAddr> = it.records.iter().flat_map(addresses).collect();
    others.retain(|other| *other != ip);
    for directory in &mut it.directories {
        for other in &others {
            let listed = reservations::view::address(&directory.path, *other).ok()?;
            directory.listed.extend(listed);
        }
        directory.listed.sort_unstable_by_key(|it| it.ip);
        directory.listed.dedup();
    }
    // Of the other addresses, those of other holders don't count.
    let records = &it.records;
    for directory in &mut it.directories {
        directory.listed.retain(|listed| {
            let holder = holder(listed);
            holder.is_some_and(|(network, attachment)| {
                records
                    .iter()
                    .any(|it| it.network == network && it.listed.attachment == attachment)
            })
        });
    }
    it.docker = node.ask_docker();
    Some(it)
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
    let state_dirs = node.state_dirs();
    let mut found = state_dirs
        .iter()
        .filter_map(|state_dir| chain::record::record_of(state_dir, &network, &attachment).ok()?);
    let listed = found.next()?;
    Some(NetworkRecord { network, listed })
}

/// The addresses of a recorded answer.
fn addresses(record: &NetworkRecord) -> Vec<IpAddr> {
    let holdings = Holding::recorded(record, |_| false);
    holdings.iter().filter_map(|it| it.ip).collect()
}

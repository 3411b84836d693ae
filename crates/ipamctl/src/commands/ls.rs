//! `ipamctl ls`: who holds which address.

use std::collections::BTreeSet;
use std::time::SystemTime;

use anyhow::{Result, ensure};
use cluster::contents::{self, claimed_blocks};

use crate::arguments::LsArguments;
use crate::context::Context;
use crate::node::{Extent, HeldAddress, HeldState, Inventory, Node, held_addresses, short_id};
use crate::output::table::Table;
use crate::output::times::ago;
use crate::output::{Output, Style, joined, warn};
use crate::shared_pools::{SharedCluster, no_cluster, since};

pub(crate) fn run(arguments: &LsArguments, context: &Context<'_>) -> Result<bool> {
    let node = &context.node();
    let is_wanted = |address: &HeldAddress<'_>| {
        let name = arguments.network.as_ref();
        name.is_none_or(|name| address.is_of(name))
    };
    if arguments.all_nodes {
        let members = members(node)?;
        let addresses = members.iter().map(of_member).filter(is_wanted);
        show(arguments, &addresses.collect::<Vec<_>>(), context.output)?;
        return Ok(false);
    }
    let inventory = Inventory::read(node, Extent::All);
    let mut addresses = held_addresses(&inventory);
    addresses.retain(is_wanted);
    if let Some(name) = &arguments.network {
        let mut pools = inventory.pools.all.iter();
        let mut directories = inventory.directories.values();
        let is_known = !addresses.is_empty()
            || node.network(name).is_some()
            || pools.any(|pool| pool.name() == Some(name))
            || directories.any(|directory| directory.name.as_str() == name);
        ensure!(is_known, "no network and no pool is named {name}");
    }
    show(arguments, &addresses, context.output)?;
    inventory.verdict(false)
}

fn show(arguments: &LsArguments, addresses: &[HeldAddress<'_>], output: Output) -> Result<()> {
    if addresses.is_empty() && !output.json {
        warn("no address is reserved");
        return Ok(());
    }
    let now = SystemTime::now();
    let text = |value: Option<&str>, missing: &str| value.unwrap_or(missing).to_owned();
    let container = |held: &HeldAddress<'_>| match held.container {
        Some(id) if !arguments.no_trunc => short_id(id).to_owned(),
        id => text(id, "?"),
    };
    let since = |held: &HeldAddress<'_>| held.since.map(|since| ago(since, now));
    let lines = || {
        Table::of(addresses)
            .text("ADDRESS", |held| {
                held.ip.map_or("-".to_owned(), |ip| ip.to_string())
            })
            .text("NETWORK", |held| text(held.network, "?"))
            .text("POOL", |held| text(held.pool, ""))
            .text("NODE", |held| text(held.node, ""))
            .text("CONTAINER", container)
            .text("IF", |held| text(held.ifname, "-"))
            .text("SINCE", |held| since(held).unwrap_or("?".to_owned()))
            .text("NAME", |held| held.names.short())
            .text("STATE", |held| held.state.to_string())
            .lines(output, |held| match held.state {
                HeldState::Added | HeldState::Reserved => None,
                _ => Some(Style::Yellow),
            })
    };
    Ok(output.print(&addresses, lines)?)
}

/// The addresses in the clusters' pools, of all nodes.
fn members(node: &Node) -> Result<Vec<contents::HeldAddress>> {
    let clusters = SharedCluster::all(node);
    if clusters.is_empty() {
        return Err(no_cluster());
    }
    let mut members = Vec::new();
    for cluster in &clusters {
        let engine = &mut *cluster.engine();
        members.extend(contents::held_addresses(engine, true)?);
        let blocks = claimed_blocks(engine)?.into_iter();
        let in_blocks: BTreeSet<_> = blocks.map(|block| block.pool).collect();
        if !in_blocks.is_empty() {
            warn(format!(
                "{} doesn't have the addresses of these pools, which are given in blocks (ipamctl blocks): {}",
                cluster.path().display(),
                joined(in_blocks, ", ")
            ));
        }
    }
    Ok(members)
}

fn of_member(member: &contents::HeldAddress) -> HeldAddress<'_> {
    let holder = member.holder.as_ref();
    HeldAddress {
        ip: Some(member.ip),
        pool: Some(member.pool.as_str()),
        network: holder.map(|holder| holder.network.as_str()),
        node: holder.map(|holder| holder.node.as_str()),
        container: holder.map(|holder| holder.container_id.as_str()),
        ifname: holder.map(|holder| holder.ifname.as_str()),
        since: holder.and_then(since),
        state: holder.map_or(HeldState::Unreadable, |_| HeldState::Reserved),
        ..HeldAddress::default()
    }
}

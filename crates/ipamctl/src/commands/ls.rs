//! `ipamctl ls`: who holds which address.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::{Result, ensure};
use cluster::contents::{self, claimed_blocks};

use crate::arguments::LsArguments;
use crate::node::{Extent, HeldAddress, HeldState, Inventory, Node, held_addresses, short_id};
use crate::output::table::Table;
use crate::output::times::ago;
use crate::output::{Output, Style, joined, warn};
use crate::shared_pools::engines::EngineKind;
use crate::shared_pools::since;

pub(crate) fn run(arguments: &LsArguments, node: &Node, output: Output) -> Result<ExitCode> {
    if arguments.all_nodes {
        let members = members(node)?;
        let mut addresses: Vec<HeldAddress<'_>> = members.iter().map(of_member).collect();
        if let Some(name) = &arguments.network {
            addresses.retain(|address| address.is_of(name));
        }
        show(arguments, &addresses, output)?;
        return Ok(ExitCode::SUCCESS);
    }
    let inventory = Inventory::read(node, Extent::All);
    let mut addresses = held_addresses(&inventory);
    if let Some(name) = &arguments.network {
        addresses.retain(|address| address.is_of(name));
        let mut pools = inventory.pools.all.iter();
        let mut directories = inventory.directories.values();
        let is_known = !addresses.is_empty()
            || node.network(name).is_some()
            || pools.any(|pool| pool.name() == Some(name))
            || directories.any(|directory| directory.name.as_str() == name);
        ensure!(is_known, "no network and no pool is named {name}");
    }
    show(arguments, &addresses, output)?;
    inventory.verdict(false)
}

fn show(arguments: &LsArguments, addresses: &[HeldAddress<'_>], output: Output) -> Result<()> {
    if addresses.is_empty() && !output.json {
        warn("no address is reserved");
        return Ok(());
    }
    let table = || table(addresses, arguments.no_trunc).lines(output);
    Ok(output.print(&addresses, table)?)
}

/// The addresses in the clusters' pools, of all nodes.
fn members(node: &Node) -> Result<Vec<contents::HeldAddress>> {
    ensure!(
        !node.clusters.is_empty(),
        "no conflist leads to a cluster: none has {} among its delegates",
        EngineKind::plugins()
    );
    let mut members = Vec::new();
    for cluster in &node.clusters {
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
    let address = HeldAddress {
        ip: Some(member.ip),
        pool: Some(member.pool.as_str()),
        ..HeldAddress::default()
    };
    match &member.holder {
        Some(holder) => HeldAddress {
            network: Some(&holder.network),
            node: Some(&holder.node),
            container: Some(&holder.container_id),
            ifname: Some(&holder.ifname),
            since: since(holder),
            ..address
        },
        None => HeldAddress {
            state: HeldState::Unreadable,
            ..address
        },
    }
}

fn table(addresses: &[HeldAddress<'_>], no_trunc: bool) -> Table {
    let now = SystemTime::now();
    let mut table = Table::new(&[
        "ADDRESS",
        "NETWORK",
        "POOL",
        "NODE",
        "CONTAINER",
        "IF",
        "SINCE",
        "NAME",
        "STATE",
    ]);
    for address in addresses {
        let container = address.container.unwrap_or("?");
        let style = match address.state {
            HeldState::Added | HeldState::Reserved => None,
            _ => Some(Style::Yellow),
        };
        let since = address.since.map(|since| ago(since, now));
        let cells = [
            address.ip.map_or("-".to_owned(), |ip| ip.to_string()),
            address.network.unwrap_or("?").to_owned(),
            address.pool.unwrap_or_default().to_owned(),
            address.node.unwrap_or_default().to_owned(),
            if no_trunc {
                container
            } else {
                short_id(container)
            }
            .to_owned(),
            address.ifname.unwrap_or("-").to_owned(),
            since.unwrap_or("?".to_owned()),
            address.names.short(),
            address.state.to_string(),
        ];
        table.row(style, cells);
    }
    table
}

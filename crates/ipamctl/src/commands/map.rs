//! `ipamctl map`: the addresses of a network or a named pool as a picture.

mod cells;
mod svg;
mod text;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::context::Context;
use crate::leaks::evidence::{Judge, is_proven};
use crate::node::{
    Extent, HeldAddress, Inventory, Node, PlacedPool, attachments, held_addresses, short_id, slice,
};
use crate::output::joined;
use cells::{Cell, Grid, Picture};

/// Minimum age of a pending call that counts as leaked, as in `ipamctl leaks`.
const PENDING: Duration = Duration::from_secs(600);

pub(crate) fn run(name: &str, svg: Option<&Path>, context: &Context<'_>) -> Result<bool> {
    let (node, output) = (&context.node(), context.output);
    // The holders are shown in titles and in JSON only.
    let has_holders = output.json || svg.is_some();
    let extent = if has_holders {
        Extent::All
    } else {
        Extent::Map
    };
    let inventory = Inventory::read(node, extent);
    let pools = inventory.pools.all.iter();
    let pools: Vec<&PlacedPool> = pools.filter(|placed| placed.is_of(name)).collect();
    ensure!(
        !pools.is_empty(),
        "no conflist has ranges of a network or pool {name}"
    );
    let held = held_addresses(&inventory);
    let mut holders: HashMap<&Path, BTreeMap<IpAddr, String>> = HashMap::new();
    for address in &held {
        if let (Some(directory), Some(ip)) = (address.directory, address.ip) {
            let holders = holders.entry(&directory.path).or_default();
            holders.insert(ip, holder(address));
        }
    }
    let leaked = leaked(node, held);
    let pictures = pools.into_iter().map(|placed| {
        let taken = inventory.taken(&placed.directory);
        let leaked = of_pool(&leaked, placed);
        let mut picture = Picture::new(title(placed), &placed.pool.ranges, taken, leaked);
        picture.holders = holders.get(placed.directory.as_path());
        picture
    });
    let pictures: Vec<Picture<'_>> = pictures.collect();
    match svg {
        Some(file) => svg::canvas(name, &pictures).write(file, output)?,
        None => {
            let pools: Vec<Value> = pictures.iter().map(pool).collect();
            output.print(&pools, || text::lines(&pictures, output))?;
        }
    }
    inventory.verdict(false)
}

fn title(placed: &PlacedPool) -> String {
    let networks = joined(&placed.networks, ", ");
    match placed.name() {
        Some(name) => format!("pool {name} of {networks}: {}", placed.pool.ranges),
        None => format!("{networks}: {}", placed.pool.ranges),
    }
}

/// The addresses whose records prove that they are leaked, each with its network.
fn leaked<'a>(node: &Node, held: Vec<HeldAddress<'a>>) -> BTreeSet<(&'a str, IpAddr)> {
    let judge = Judge::new(None, PENDING, &node.environment);
    let mut leaked = BTreeSet::new();
    for attachment in attachments(held) {
        if attachment.record.is_some() && is_proven(&judge.evidence(&attachment)) {
            leaked.extend(attachment.ips().map(|ip| (attachment.network, ip)));
        }
    }
    leaked
}

/// The leaked addresses of a pool.
fn of_pool(leaked: &BTreeSet<(&str, IpAddr)>, placed: &PlacedPool) -> BTreeSet<IpAddr> {
    let mut found = BTreeSet::new();
    for network in placed.networks.iter().map(|network| network.as_str()) {
        for range in placed.pool.ranges.ranges() {
            let (first, last) = (range.addresses().first(), range.addresses().last());
            let leaked = leaked.range((network, first)..=(network, last));
            found.extend(leaked.map(|(_, ip)| *ip));
        }
    }
    found
}

fn holder(address: &HeldAddress<'_>) -> String {
    let name = address.names.short();
    let state = address.state.to_string();
    let container = address.container.map_or(state.as_str(), short_id);
    match address.ifname {
        _ if !name.is_empty() => format!("{name} ({container})"),
        Some(ifname) => format!("{container} {ifname}"),
        None => container.to_owned(),
    }
}

/// A pool as JSON, with its addresses that aren't free. The keys are documented, and don't change
/// their meaning.
fn pool(picture: &Picture<'_>) -> Value {
    let ranges = picture.ranges.ranges();
    let mut ips: BTreeSet<IpAddr> = ranges.iter().map(|range| range.gateway()).collect();
    for (subnet, grid) in picture.grids() {
        if let Grid::Addresses(cells) = grid {
            let is_shown = |cell| !matches!(cell, Cell::Free | Cell::Outside);
            let shown = cells.into_iter().filter(|(_, cell)| is_shown(*cell));
            ips.extend(shown.map(|(ip, _)| ip));
        }
        ips.extend(slice(picture.taken, subnet.network(), subnet.broadcast()));
    }
    let addresses = ips.into_iter().map(|ip| {
        let state = picture.cell(ip).look().name;
        json!({"address": ip, "state": state, "holder": picture.holder(ip)})
    });
    let subnets = ranges.iter().map(|range| range.subnet().to_string());
    json!({
        "title": picture.title,
        "subnets": subnets.collect::<Vec<_>>(),
        "addresses": addresses.collect::<Vec<_>>(),
    })
}

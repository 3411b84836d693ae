//! `ipamctl map`: the addresses of a network or a named pool as a picture.

pub(crate) mod cells;
mod svg;
mod text;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use crate::arguments::MapArguments;
use crate::commands::ls::short;
use crate::commands::map::cells::{Cell, Grid, Known};
use crate::exit_status::Status;
use crate::leaks::evidence::{Evidence, Evidences};
use crate::node::Node;
use crate::node::attachment::attached;
use crate::node::held_address::Holding;
use crate::node::inventory::{Extent, Inventory};
use crate::node::pools::PlacedPool;
use crate::node::usage::slice;
use crate::output::Output;

/// Age from which a pending call counts as leaked, as in `ipamctl leaks`.
const PENDING: Duration = Duration::from_secs(600);

/// A pool with its picture.
struct Drawn<'a> {
    title: String,
    known: Known<'a>,
    /// Who holds an address of its directory, for people.
    holders: &'a BTreeMap<IpAddr, String>,
}

/// An address that isn't free. The keys are documented, and don't change their meaning.
#[derive(Debug, Serialize)]
struct Row {
    address: IpAddr,
    state: &'static str,
    holder: Option<String>,
}

#[derive(Debug, Serialize)]
struct Pool {
    title: String,
    subnets: Vec<String>,
    addresses: Vec<Row>,
}

pub(crate) fn run(arguments: &MapArguments, node: &Node, output: Output) -> Result<Status> {
    // The holders stand in titles and in JSON alone.
    let has_holders = output.json || arguments.svg.is_some();
    let extent = if has_holders {
        Extent::All
    } else {
        Extent::Map
    };
    let inventory = Inventory::read(node, extent);
    inventory.warn();
    let name = arguments.network.as_str();
    let pools: Vec<&PlacedPool> = inventory
        .pools
        .all
        .iter()
        .filter(|it| it.name() == Some(name) || it.networks.iter().any(|n| n.as_str() == name))
        .collect();
    ensure!(
        !pools.is_empty(),
        "no conflist says the ranges of a network or pool {name}"
    );
    let holdings = inventory.holdings();
    let leaked = leaked(node, holdings.clone());
    let leaked: Vec<BTreeSet<IpAddr>> = pools.iter().map(|it| of_pool(&leaked, it)).collect();
    let mut holders: HashMap<&Path, BTreeMap<IpAddr, String>> = HashMap::new();
    for it in &holdings {
        if let (Some(directory), Some((ip, text))) = (it.directory, holder(it)) {
            holders.entry(&directory.path).or_default().insert(ip, text);
        }
    }
    let nobody = BTreeMap::new();
    let drawn: Vec<Drawn<'_>> = pools
        .iter()
        .zip(&leaked)
        .map(|(placed, leaked)| Drawn {
            title: title(placed),
            known: Known::new(
                &placed.pool.ranges,
                inventory.taken(&placed.directory),
                leaked,
            ),
            holders: holders.get(placed.directory.as_path()).unwrap_or(&nobody),
        })
        .collect();
    match &arguments.svg {
        Some(file) => {
            let picture = svg::picture(name, &drawn);
            if file == Path::new("-") {
                output.lines(picture.lines())?;
            } else {
                fs::write(file, picture).with_context(|| file.display().to_string())?;
            }
        }
        None if output.json => Output::json(&drawn.iter().map(pool).collect::<Vec<_>>())?,
        None => output.lines(text::lines(&drawn, output))?,
    }
    inventory.verdict(Status::Fine)
}

fn title(placed: &PlacedPool) -> String {
    let networks: Vec<&str> = placed.networks.iter().map(|it| it.as_str()).collect();
    let networks = networks.join(", ");
    match placed.name() {
        Some(name) => format!("pool {name} of {networks}: {}", placed.pool.ranges),
        None => format!("{networks}: {}", placed.pool.ranges),
    }
}

/// The leaked addresses by their records, each with its network.
fn leaked<'a>(node: &Node, holdings: Vec<Holding<'a>>) -> BTreeSet<(&'a str, IpAddr)> {
    let evidences = Evidences::new(None, PENDING, &node.environment);
    let mut leaked = BTreeSet::new();
    for it in attached(holdings) {
        if it.record.is_some() && evidences.of(&it).iter().any(Evidence::is_proof) {
            leaked.extend(it.addresses().map(|ip| (it.network, ip)));
        }
    }
    leaked
}

/// The leaked addresses of a pool.
fn of_pool(leaked: &BTreeSet<(&str, IpAddr)>, placed: &PlacedPool) -> BTreeSet<IpAddr> {
    let mut its = BTreeSet::new();
    for network in &placed.networks {
        for range in placed.pool.ranges.ranges() {
            let (first, last) = (range.addresses().first(), range.addresses().last());
            let found = leaked.range((network.as_str(), first)..=(network.as_str(), last));
            its.extend(found.map(|(_, ip)| *ip));
        }
    }
    its
}

fn holder(it: &Holding<'_>) -> Option<(IpAddr, String)> {
    let names = it.names().short();
    let container = it.container.map_or_else(|| it.state.as_str(), short);
    let text = match it.ifname {
        _ if !names.is_empty() => format!("{names} ({container})"),
        Some(ifname) => format!("{container} {ifname}"),
        None => container.to_owned(),
    };
    Some((it.ip?, text))
}

fn pool(it: &Drawn<'_>) -> Pool {
    let mut addresses: Vec<Row> = Vec::new();
    let gateways = it.known.ranges.ranges().iter().map(|range| range.gateway());
    let mut ips: BTreeSet<IpAddr> = gateways.collect();
    for (_, grid) in it.known.grids() {
        if let Grid::Addresses(cells) = grid {
            let shown = |cell: &Cell| !matches!(cell, Cell::Free | Cell::Outside);
            ips.extend(
                cells
                    .iter()
                    .filter(|(_, cell)| shown(cell))
                    .map(|(ip, _)| *ip),
            );
        }
    }
    for range in it.known.ranges.ranges() {
        let subnet = range.subnet();
        ips.extend(slice(it.known.taken, subnet.network(), subnet.broadcast()));
    }
    for ip in ips {
        addresses.push(Row {
            address: ip,
            state: it.known.cell(ip).name(),
            holder: it.holders.get(&ip).cloned(),
        });
    }
    let ranges = it.known.ranges.ranges().iter();
    Pool {
        title: it.title.clone(),
        subnets: ranges.map(|range| range.subnet().to_string()).collect(),
        addresses,
    }
}

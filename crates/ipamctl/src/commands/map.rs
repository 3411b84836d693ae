//! `ipamctl map`: the addresses of a network or a named pool as a picture in the terminal. An IPv4 subnet is
//! drawn, of an IPv6 subnet the reserved addresses are listed.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use anyhow::{Result, ensure};
use ipam::{IpNet, Range};

use crate::Context;
use crate::inventory::{Inventory, NodeScope};
use crate::output::joined;
use crate::pools::PlacedPool;
use crate::usage::{PoolUsage, count_text, slice_between};

/// Cells in a row.
const ROW: u32 = 16;

/// A larger subnet has a cell for each block of addresses.
const MOST_CELLS: u32 = 1024;

/// Most addresses of an IPv6 subnet that are listed.
const MOST_LISTED: usize = 64;

/// The shades of a block by its use, from empty to full.
const SHADES: [char; 5] = [FREE, '░', '▒', '▓', RESERVED];

const FREE: char = '·';
const RESERVED: char = '█';
const EXCLUDED: char = '×';
const GATEWAY: char = 'G';
const OUTSIDE: char = ' ';

pub(crate) fn run(name: &str, context: &Context<'_>) -> Result<bool> {
    let inventory = Inventory::read(&context.node(), NodeScope::CountsOnly);
    let known = inventory.pools.all.iter();
    let pools: Vec<&PlacedPool> = known.filter(|placed| placed.matches_name(name)).collect();
    ensure!(
        !pools.is_empty(),
        inventory.unless_unread(format!(
            "no conflist has ranges of a network or pool {name}; ipamctl pools shows those that are \
             known"
        ))
    );
    let usage = |placed: &&PlacedPool| PoolUsage::of(placed, &inventory);
    let usages: Vec<PoolUsage> = pools.iter().map(usage).collect();
    context.print(&usages, || {
        let counted = pools.iter().zip(&usages);
        let drawn = counted.flat_map(|(placed, usage)| lines(placed, usage, &inventory));
        let legend =
            format!("{FREE} free   {RESERVED} reserved   {EXCLUDED} excluded   {GATEWAY} gateway");
        drawn.chain([legend])
    })?;
    inventory.verdict(false)
}

fn lines(placed: &PlacedPool, usage: &PoolUsage, inventory: &Inventory) -> Vec<String> {
    let (reserved, free) = (count_text(usage.reserved), count_text(usage.free));
    let counts = format!("{reserved} reserved, {free} free");
    let mut lines = vec![placed.to_string(), counts, String::new()];
    let taken = inventory.taken(&placed.directory);
    let mut subnets: BTreeMap<IpNet, Vec<&Range>> = BTreeMap::new();
    for range in placed.pool.ranges.ranges() {
        subnets.entry(range.subnet()).or_default().push(range);
    }
    for (subnet, ranges) in subnets {
        let taken = slice_between(taken, subnet.network(), subnet.broadcast());
        if let IpNet::V4(v4) = subnet {
            let (first, last) = (v4.network().to_bits(), v4.broadcast().to_bits());
            lines.extend(rows(first, last, &ranges, taken));
        } else {
            let listed = taken.iter().take(MOST_LISTED);
            lines.extend(listed.map(|ip| format!("{RESERVED} {ip}")));
            let more = taken.len().saturating_sub(MOST_LISTED);
            lines.extend((more > 0).then(|| format!("  and {more} more")));
        }
    }
    lines.push(String::new());
    lines
}

/// The rows of an IPv4 subnet from `first` to `last`.
fn rows(first: u32, last: u32, ranges: &[&Range], taken: &[IpAddr]) -> Vec<String> {
    // A cell is an address, a /24, or a 4,096th part of a subnet that is larger than a /12.
    let block = match last - first {
        small if small < MOST_CELLS => 1,
        large => (large >> 12).next_power_of_two().max(256),
    };
    let blocks = (first..=last).step_by(block as usize).map(|bits| {
        let ip = IpAddr::V4(Ipv4Addr::from_bits(bits));
        let end = IpAddr::V4(Ipv4Addr::from_bits(bits + (block - 1)));
        match block {
            1 => cell(ranges, taken, ip),
            _ => shade(slice_between(taken, ip, end).len(), block as usize),
        }
    });
    let cells: Vec<char> = blocks.collect();
    let starts = (first..=last).step_by((ROW * block) as usize);
    let rows = starts.zip(cells.chunks(ROW as usize));
    let lines = rows.map(|(start, cells)| {
        let ip = Ipv4Addr::from_bits(start).to_string();
        let line = format!("{ip:<15}  {}", joined(cells, " "));
        line.trim_end().to_owned()
    });
    lines.collect()
}

fn cell(ranges: &[&Range], taken: &[IpAddr], ip: IpAddr) -> char {
    let range = ranges.iter().find(|range| range.addresses().contains(ip));
    if range.is_some() && taken.binary_search(&ip).is_ok() {
        return RESERVED;
    }
    // A gateway may be outside of its range.
    if ranges.iter().any(|range| range.gateway() == Some(ip)) {
        return GATEWAY;
    }
    match range {
        None => OUTSIDE,
        Some(range) if range.gives(ip) => FREE,
        Some(_) => EXCLUDED,
    }
}

/// The character of a block of addresses. Full is only what has at most the gateway and the broadcast
/// address left.
fn shade(taken: usize, size: usize) -> char {
    let quarters = (taken * 4).div_ceil(size);
    let is_full = taken + 3 >= size;
    let most = if is_full { 4 } else { 3 };
    SHADES[quarters.min(most)]
}

//! Turns the addresses of a pool into the cells of a picture; text and SVG draw them.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::{IpAddr, Ipv4Addr};

use ipam::{Interval, IpNet, Range, RangeSet};

use crate::node::{Usage, large, slice};
use crate::output::Style;

/// Size from which a subnet is drawn by blocks.
const MOST_CELLS: u32 = 1024;

/// Bits of the addresses of the smallest block, a /24.
const LEAST_BITS: u8 = 8;

/// Bits of the largest number of blocks of a subnet, 4,096.
const MOST_BITS: u8 = 12;

/// Most rows of an IPv6 picture. Further runs are only counted.
const MOST_RUNS: usize = 32;

/// State of an address in a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    Free,
    Reserved,
    /// Reserved, and leaked by its record.
    Leaked,
    /// Excluded, and not reserved.
    Excluded,
    Gateway,
    /// Not in the pool: outside of its ranges, the subnet's first address, the broadcast.
    Outside,
}

/// Appearance of a cell.
pub(crate) struct Look {
    /// Its name in the legend, and its class in SVG.
    pub(crate) name: &'static str,
    /// The character of text.
    pub(crate) mark: &'static str,
    /// The style of the character on a terminal.
    pub(crate) style: Option<Style>,
    /// The letter in a square of SVG.
    pub(crate) letter: &'static str,
}

impl Cell {
    /// All, in the order of the legend.
    pub(crate) const ALL: [Self; 6] = [
        Self::Free,
        Self::Reserved,
        Self::Leaked,
        Self::Excluded,
        Self::Gateway,
        Self::Outside,
    ];

    /// Its appearance.
    pub(crate) fn look(self) -> Look {
        let (name, mark, style, letter) = match self {
            Self::Free => ("free", "·", Some(Style::Dim), ""),
            Self::Reserved => ("reserved", "█", Some(Style::Green), ""),
            Self::Leaked => ("leaked", "!", Some(Style::Red), "!"),
            Self::Excluded => ("excluded", "×", None, "×"),
            Self::Gateway => ("gateway", "G", Some(Style::Bold), "G"),
            Self::Outside => ("outside", " ", None, ""),
        };
        Look {
            name,
            mark,
            style,
            letter,
        }
    }
}

/// A block of addresses: an IPv4 /24, or more of a subnet that is larger than a /12.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) first: IpAddr,
    /// Length of its prefix.
    pub(crate) prefix: u8,
    /// Addresses of the pool without gateways and excluded ones; 0 outside of the pool.
    pub(crate) size: u128,
    pub(crate) reserved: u128,
    pub(crate) leaked: usize,
}

/// A picture of one subnet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Grid {
    /// Each address is a cell, sixteen a row.
    Addresses(Vec<(IpAddr, Cell)>),
    /// Each block is a cell, sixteen a row.
    Blocks(Vec<Block>),
    /// Runs of consecutive addresses in use with one state, and the number of further runs.
    Runs(Vec<(Interval, Cell)>, usize),
}

/// The picture of a pool.
pub(crate) struct Picture<'a> {
    pub(crate) title: String,
    pub(crate) ranges: &'a RangeSet,
    /// Taken addresses, in ascending order.
    pub(crate) taken: &'a [IpAddr],
    /// The leaked ones of these.
    leaked: BTreeSet<IpAddr>,
    /// The holders of the addresses of its directory, for people.
    pub(crate) holders: Option<&'a BTreeMap<IpAddr, String>>,
    /// The gateways of the ranges.
    gateways: HashSet<IpAddr>,
    /// The ranges, by their first addresses. They don't overlap.
    by_first: BTreeMap<IpAddr, &'a Range>,
    /// The pool's addresses without gateways and excluded ones, in ascending order.
    given: Vec<Interval>,
}

impl<'a> Picture<'a> {
    pub(crate) fn new(
        title: String,
        ranges: &'a RangeSet,
        taken: &'a [IpAddr],
        leaked: BTreeSet<IpAddr>,
    ) -> Self {
        let mut given: Vec<Interval> = ranges.given().collect();
        given.sort_unstable_by_key(|interval| interval.first());
        let all = ranges.ranges().iter();
        let by_first = all.clone().map(|range| (range.addresses().first(), range));
        Self {
            title,
            ranges,
            taken,
            leaked,
            holders: None,
            by_first: by_first.collect(),
            gateways: all.map(Range::gateway).collect(),
            given,
        }
    }

    /// The holder of an address, for people.
    pub(crate) fn holder(&self, ip: IpAddr) -> Option<&'a String> {
        self.holders?.get(&ip)
    }

    /// The counts, for people.
    pub(crate) fn counts(&self) -> String {
        let usage = Usage::of(self.ranges, self.taken);
        let (reserved, free) = (large(usage.reserved), large(usage.free()));
        format!("{reserved} reserved, {free} free")
    }

    /// The pictures of the pool's subnets, each once.
    pub(crate) fn grids(&self) -> Vec<(IpNet, Grid)> {
        let mut seen = BTreeSet::new();
        let subnets = self.ranges.ranges().iter().map(Range::subnet);
        let subnets = subnets.filter(|subnet| seen.insert(*subnet));
        subnets.map(|subnet| (subnet, self.grid(subnet))).collect()
    }

    fn grid(&self, subnet: IpNet) -> Grid {
        let IpNet::V4(v4) = subnet else {
            return self.runs(subnet);
        };
        let (first, last) = (v4.network().to_bits(), v4.broadcast().to_bits());
        if last - first < MOST_CELLS {
            let cells = (first..=last).map(|bits| IpAddr::from(Ipv4Addr::from_bits(bits)));
            return Grid::Addresses(cells.map(|ip| (ip, self.cell(ip))).collect());
        }
        let bits = (32 - v4.prefix_len())
            .saturating_sub(MOST_BITS)
            .max(LEAST_BITS);
        let blocks = (first..=last).step_by(1 << bits);
        Grid::Blocks(blocks.map(|start| self.block(start, bits)).collect())
    }

    /// The state of an address.
    pub(crate) fn cell(&self, ip: IpAddr) -> Cell {
        let nearest = self.by_first.range(..=ip).next_back();
        let range = nearest.filter(|(_, range)| range.addresses().contains(ip));
        let is_taken = range.is_some() && self.taken.binary_search(&ip).is_ok();
        match range {
            _ if is_taken && self.leaked.contains(&ip) => Cell::Leaked,
            _ if is_taken => Cell::Reserved,
            // A gateway may be outside of its range.
            _ if self.gateways.contains(&ip) => Cell::Gateway,
            None => Cell::Outside,
            Some((_, range)) if range.gives(ip) => Cell::Free,
            Some(_) => Cell::Excluded,
        }
    }

    /// The block of this many bits that begins here.
    fn block(&self, start: u32, bits: u8) -> Block {
        let ip = |bits: u32| IpAddr::from(Ipv4Addr::from_bits(bits));
        let whole = interval(ip(start), ip(start + ((1 << bits) - 1)));
        let (first, last) = (whole.first(), whole.last());
        let from = self.given.partition_point(|given| given.last() < first);
        let parts = self.given[from..].iter();
        let parts = parts.map_while(|given| given.intersection(whole));
        let taken = |part: Interval| slice(self.taken, part.first(), part.last()).len() as u128;
        Block {
            first,
            prefix: 32 - bits,
            size: parts.clone().map(Interval::size).sum(),
            reserved: parts.map(taken).sum(),
            leaked: self.leaked.range(first..=last).count(),
        }
    }

    /// The reserved addresses of an IPv6 subnet, as runs of one state.
    fn runs(&self, subnet: IpNet) -> Grid {
        let mut runs: Vec<(Interval, Cell)> = Vec::new();
        for &ip in slice(self.taken, subnet.network(), subnet.broadcast()) {
            let cell = self.cell(ip);
            match runs.last_mut() {
                Some((run, of)) if *of == cell && interval(run.last(), ip).size() == 2 => {
                    *run = interval(run.first(), ip);
                }
                _ => runs.push((interval(ip, ip), cell)),
            }
        }
        let more = runs.len().saturating_sub(MOST_RUNS);
        runs.truncate(MOST_RUNS);
        Grid::Runs(runs, more)
    }
}

fn interval(first: IpAddr, last: IpAddr) -> Interval {
    Interval::new(first, last).expect("the addresses are in order")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(json: &str) -> RangeSet {
        RangeSet::read(
            "ranges",
            &serde_json::from_str::<Vec<_>>(json).unwrap(),
            &[],
        )
        .unwrap()
    }

    fn ips(list: &[&str]) -> Vec<IpAddr> {
        list.iter().map(|ip| ip.parse().unwrap()).collect()
    }

    fn picture<'a>(ranges: &'a RangeSet, taken: &'a [IpAddr], leaked: &[IpAddr]) -> Picture<'a> {
        let leaked = leaked.iter().copied().collect();
        Picture::new(String::new(), ranges, taken, leaked)
    }

    #[test]
    fn each_address_of_a_small_subnet_is_a_cell_of_its_state() {
        let ranges = ranges(
            r#"[{"subnet":"10.0.0.0/28","rangeStart":"10.0.0.3","exclude":["10.0.0.8/30"]}]"#,
        );
        let (taken, leaked) = (
            &ips(&["10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.9"]),
            &ips(&["10.0.0.4"]),
        );
        let known = picture(&ranges, taken, leaked);
        let [(_, Grid::Addresses(cells))] = &known.grids()[..] else {
            panic!("one grid of addresses");
        };
        let drawn: String = cells.iter().map(|(_, cell)| cell.look().mark).collect();
        assert_eq!(drawn, " G █!···×█××··· ");
    }

    #[test]
    fn a_large_subnet_is_drawn_by_its_24s() {
        let ranges = ranges(r#"[{"subnet":"10.1.0.0/16","rangeEnd":"10.1.1.9"}]"#);
        let (taken, leaked) = (
            &ips(&["10.1.0.2", "10.1.1.3", "10.1.1.4"]),
            &ips(&["10.1.1.4"]),
        );
        let known = picture(&ranges, taken, leaked);
        let [(_, Grid::Blocks(blocks))] = &known.grids()[..] else {
            panic!("one grid of blocks");
        };
        assert_eq!(blocks.len(), 256);
        let counts = |at: usize| (blocks[at].size, blocks[at].reserved, blocks[at].leaked);
        assert_eq!(counts(0), (254, 1, 0));
        assert_eq!(counts(1), (10, 2, 1));
        assert_eq!(counts(2), (0, 0, 0));
    }

    #[test]
    fn all_of_ipv4_is_drawn_by_4096_blocks() {
        let ranges = ranges(r#"[{"subnet":"0.0.0.0/0"}]"#);
        let taken = ips(&["10.1.0.2", "255.255.255.254"]);
        let known = picture(&ranges, &taken, &[]);
        let [(_, Grid::Blocks(blocks))] = &known.grids()[..] else {
            panic!("one grid of blocks");
        };
        assert_eq!(blocks.len(), 4_096);
        let last = blocks[4_095];
        assert_eq!(last.first.to_string(), "255.240.0.0");
        assert_eq!((last.prefix, last.size, last.reserved), (12, 1_048_575, 1));
    }

    #[test]
    fn ipv6_is_drawn_by_the_runs_in_use() {
        let ranges = ranges(r#"[{"subnet":"fd00::/64"}]"#);
        let (taken, leaked) = (
            &ips(&["fd00::2", "fd00::3", "fd00::4", "fd00::9"]),
            &ips(&["fd00::4"]),
        );
        let known = picture(&ranges, taken, leaked);
        let [(_, Grid::Runs(runs, 0))] = &known.grids()[..] else {
            panic!("one list of runs");
        };
        let texts: Vec<String> = runs.iter().map(|(run, _)| run.to_string()).collect();
        assert_eq!(
            texts,
            ["fd00::2-fd00::3", "fd00::4-fd00::4", "fd00::9-fd00::9"]
        );
        assert_eq!(runs[1].1, Cell::Leaked);
    }
}

//! Finds addresses of two networks, of two pools, or of a network and the host.

use std::collections::HashMap;

use ipam::{Interval, IpNet, Range};

use crate::check::conflist_check::{Check, Checked};
use crate::node::PlacedPool;

/// Main plugins that attach containers to a link of the host, in its subnet.
const ON_THE_HOSTS_LINK: [&str; 7] = [
    "macvlan",
    "ipvlan",
    "host-device",
    "vlan",
    "sriov",
    "ipoib",
    "ovs",
];

/// Number of other pools that are named for each pool, and of ranges that are named for another
/// one.
const MOST_NAMED: usize = 4;

/// A pool: the index of its conflist, and its own in this conflist.
type PoolIndex = (usize, usize);

/// For each pool, the pools with other reservations that overlap it, and the shared addresses; one
/// more than are named.
type Overlaps = HashMap<PoolIndex, Vec<(Interval, PoolIndex)>>;

/// The overlaps of all pools.
pub(super) fn of_pools(all: &[Checked<'_>]) -> Overlaps {
    let mut ranges: Vec<(Interval, PoolIndex)> = Vec::new();
    for (conflist, checked) in all.iter().enumerate() {
        for (pool, placed) in checked.pools.all.iter().enumerate() {
            let of_pool = placed.pool.ranges.ranges().iter();
            ranges.extend(of_pool.map(|range| (range.addresses(), (conflist, pool))));
        }
    }
    ranges.sort_by_key(|(interval, _)| interval.first());
    let mut overlaps = Overlaps::new();
    let mut add = |both: Interval, of: PoolIndex, other: PoolIndex| {
        // Of one network, each pair once.
        let is_meant = match of.0 == other.0 {
            true => other.1 < of.1,
            false => all[of.0].conflist.file != all[other.0].conflist.file,
        };
        let directory = |(conflist, pool): PoolIndex| &all[conflist].pools.all[pool].directory;
        if !is_meant || directory(of) == directory(other) {
            return;
        }
        let found = overlaps.entry(of).or_default();
        if found.len() <= MOST_NAMED && found.iter().all(|(_, known)| *known != other) {
            found.push((both, other));
        }
    };
    for (i, (interval, pool)) in ranges.iter().enumerate() {
        let following = ranges[i + 1..].iter();
        let overlapping = following.take_while(|(other, _)| other.first() <= interval.last());
        for (other, other_pool) in overlapping {
            if let Some(both) = interval.intersection(*other) {
                add(both, *pool, *other_pool);
                add(both, *other_pool, *pool);
            }
        }
    }
    overlaps
}

impl Check<'_> {
    pub(super) fn overlaps(&mut self, overlaps: &Overlaps) {
        for (i, pool) in self.one.pools.all.iter().enumerate() {
            let others = overlaps.get(&(self.at, i)).map_or(&[][..], |others| others);
            self.with_others(pool, others);
            for range in pool.pool.ranges.ranges() {
                self.with_host(pool, range);
            }
        }
    }

    fn with_others(&mut self, pool: &PlacedPool, others: &[(Interval, PoolIndex)]) {
        let more = match others.len() > MOST_NAMED {
            true => ", and by others",
            false => "",
        };
        for (both, (conflist, theirs)) in others.iter().take(MOST_NAMED) {
            let other = &self.all[*conflist];
            let theirs = describe(&other.pools.all[*theirs]);
            let (name, file) = (&other.conflist.name, other.conflist.file.display());
            let whose = match *conflist == self.at {
                true => format!("{theirs} of the same network"),
                false => format!("{theirs} of network {name} in {file}"),
            };
            self.findings.error(
                &key(pool),
                format!("{both} is given by {whose}, too{more}; each address would be given twice"),
                "ranges that don't overlap, or one named pool for both networks",
            );
        }
    }

    fn with_host(&mut self, pool: &PlacedPool, range: &Range) {
        let (subnet, key) = (range.subnet(), key(pool));
        let defaults = [
            (self.host.has_podman, "10.88.0.0/16", "podman"),
            (self.host.has_docker, "172.17.0.0/16", "Docker"),
        ];
        let name = self.one.conflist.name.as_str();
        for (is_installed, default, whose) in defaults {
            let net: IpNet = default.parse().expect("the constant is a subnet");
            let is_shared = subnet.contains(&net) || net.contains(&subnet);
            if is_installed && is_shared && !name.eq_ignore_ascii_case(whose) {
                self.findings.warning(
                    &key,
                    format!("{subnet} overlaps {default}, the default network of {whose}, which is installed"),
                    "another subnet",
                );
            }
        }
        let Some(main) = self.one.network.as_ref().map(|network| &network.main) else {
            return;
        };
        let kind = main.kind.as_str();
        // A bridge without a gateway address may have an interface of the host as a port.
        let is_gateway = main.is_set("isGateway") || main.is_set("isDefaultGateway");
        if ON_THE_HOSTS_LINK.contains(&kind) || kind == "bridge" && !is_gateway {
            return;
        }
        let own = main.text("bridge").unwrap_or_else(|| "cni0".to_owned());
        let routes = self.host.routes.iter();
        let foreign = routes.filter(|route| kind != "bridge" || route.interface != own);
        // The network's own route is narrower than a route to more than the subnet.
        for route in foreign.filter(|route| subnet.contains(&route.to)) {
            let (to, interface) = (&route.to, &route.interface);
            self.findings.error(
                &key,
                format!("{to} of {subnet} is routed by the host through {interface}"),
                "a subnet that the host doesn't reach otherwise",
            );
        }
    }
}

fn describe(pool: &PlacedPool) -> String {
    let ranges = pool.pool.ranges.ranges();
    match pool.name() {
        Some(name) => format!("pool {name}"),
        None if ranges.len() <= MOST_NAMED => pool.pool.ranges.to_string(),
        None => format!("{} and {} more ranges", ranges[0], ranges.len() - 1),
    }
}

fn key(pool: &PlacedPool) -> String {
    match (pool.name(), pool.index) {
        (Some(name), _) => format!("ipam.pools.{name}"),
        (None, Some(index)) => format!("ipam.ranges[{index}]"),
        (None, None) => "ipam.ranges".to_owned(),
    }
}

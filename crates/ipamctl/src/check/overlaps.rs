//! Finds addresses that two networks, two pools, or a network and the host would use.

use std::ops::ControlFlow;

use ipam::{Interval, IpNet, Range};

use crate::check::checked::Checked;
use crate::check::findings::Findings;
use crate::check::host::Host;
use crate::check::range_index::RangeIndex;
use crate::node::PlacedPool;

/// Main plugins whose containers are on a link of the host, in its subnet.
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

pub(crate) fn check(
    at: usize,
    all: &[Checked<'_>],
    ranges: &RangeIndex,
    host: &Host<'_>,
    findings: &mut Findings<'_>,
) {
    let checked = &all[at];
    for (i, pool) in checked.pools.iter().enumerate() {
        with_others(i, at, all, ranges, findings);
        for range in pool.pool.ranges.ranges() {
            with_host(checked, pool, range, host, findings);
        }
    }
}

fn describe(pool: &PlacedPool) -> String {
    let ranges = pool.pool.ranges.ranges();
    match pool.name() {
        Some(name) => format!("pool {name}"),
        None if ranges.len() <= MOST_NAMED => format!("{}", pool.pool.ranges),
        None => format!("{} and {} more ranges", ranges[0], ranges.len() - 1),
    }
}

/// Pools that share addresses with this one, and don't know of its reservations: the earlier
/// ones of its network, and those of others.
fn with_others(
    number: usize,
    at: usize,
    all: &[Checked<'_>],
    ranges: &RangeIndex,
    findings: &mut Findings<'_>,
) {
    let checked = &all[at];
    let pool = &checked.pools[number];
    let is_other = |conflist: usize, theirs: usize| {
        let other = &all[conflist];
        // Of this network, each pair once.
        let is_meant = if conflist == at {
            theirs < number
        } else {
            other.conflist.file != checked.conflist.file
        };
        is_meant && other.pools[theirs].directory != pool.directory
    };
    let mut found: Vec<(Interval, usize, usize)> = Vec::new();
    for range in pool.pool.ranges.ranges() {
        ranges.overlapping(range.addresses(), |both, conflist, theirs| {
            let mut known = found.iter();
            let is_known = known.any(|(_, c, pool)| (*c, *pool) == (conflist, theirs));
            if !is_known && is_other(conflist, theirs) {
                found.push((both, conflist, theirs));
            }
            if found.len() > MOST_NAMED {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
    }
    for (both, conflist, theirs) in found.iter().take(MOST_NAMED) {
        let other = all[*conflist].conflist;
        let theirs = &all[*conflist].pools[*theirs];
        let whose = if *conflist == at {
            format!("{} of the same network", describe(theirs))
        } else {
            let file = other.file.display();
            format!("{} of network {} in {file}", describe(theirs), other.name)
        };
        let more = if found.len() > MOST_NAMED {
            ", and by others"
        } else {
            ""
        };
        findings.error(
            &key(pool),
            format!("{both} is given by {whose}, too{more}; each address would be given twice"),
            "ranges that don't overlap, or one named pool for both networks",
        );
    }
}

fn with_host(
    checked: &Checked<'_>,
    pool: &PlacedPool,
    range: &Range,
    host: &Host<'_>,
    findings: &mut Findings<'_>,
) {
    let subnet = range.subnet();
    let defaults = [
        (host.has_podman, "10.88.0.0/16", "podman"),
        (host.has_docker, "172.17.0.0/16", "Docker"),
    ];
    let name = checked.conflist.name.as_str();
    for (is_installed, default, whose) in defaults {
        let default: IpNet = default.parse().expect("the constant is a subnet");
        if is_installed && share(subnet, default) && !name.eq_ignore_ascii_case(whose) {
            findings.warning(
                &key(pool),
                format!("{subnet} overlaps {default}, the default network of {whose}, which is installed"),
                "another subnet",
            );
        }
    }
    let Some(main) = checked.network.as_ref().map(|network| &network.main) else {
        return;
    };
    let kind = main.kind.as_str();
    // Without a gateway of its own, a bridge may have an interface of the host on it.
    let is_gateway = main.is_set("isGateway") || main.is_set("isDefaultGateway");
    if ON_THE_HOSTS_LINK.contains(&kind) || kind == "bridge" && !is_gateway {
        return;
    }
    let own = main.text("bridge").unwrap_or_else(|| "cni0".to_owned());
    let routes = host.routes.iter();
    let foreign = routes.filter(|route| kind != "bridge" || route.interface != own);
    // A route to more than the subnet yields to the network's own, which is narrower.
    for route in foreign.filter(|route| subnet.contains(&route.to)) {
        findings.error(
            &key(pool),
            format!(
                "{} of {subnet} is routed by the host through {}",
                route.to, route.interface
            ),
            "a subnet that the host doesn't reach otherwise",
        );
    }
}

fn share(one: IpNet, other: IpNet) -> bool {
    one.contains(&other) || other.contains(&one)
}

fn key(pool: &PlacedPool) -> String {
    match (pool.name(), pool.index) {
        (Some(name), _) => format!("ipam.pools.{name}"),
        (None, Some(index)) => format!("ipam.ranges[{index}]"),
        (None, None) => "ipam.ranges".to_owned(),
    }
}

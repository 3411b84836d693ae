//! Addresses that two networks, two pools, or a network and the host would use.

use ipam::{IpNet, Range};

use crate::check::host::Host;
use crate::check::{Checked, Findings};
use crate::pools::PlacedPool;

/// Main plugins whose containers are on a link of the host's, with its subnet.
const ON_THE_HOSTS_LINK: [&str; 7] = [
    "macvlan",
    "ipvlan",
    "host-device",
    "vlan",
    "sriov",
    "ipoib",
    "ovs",
];

pub(crate) fn check(
    it: &Checked<'_>,
    all: &[Checked<'_>],
    host: &Host<'_>,
    findings: &mut Findings<'_>,
) {
    for (i, pool) in it.pools.iter().enumerate() {
        // The pools of this network, each pair once, then those of others.
        for other in &it.pools[..i] {
            let whose = format!("{} of the same network", describe(other));
            between(pool, other, &whose, findings);
        }
        for other in all
            .iter()
            .filter(|other| other.conflist.file != it.conflist.file)
        {
            for theirs in &other.pools {
                let whose = format!(
                    "{} of network {} in {}",
                    describe(theirs),
                    other.conflist.name,
                    other.conflist.file.display()
                );
                between(pool, theirs, &whose, findings);
            }
        }
        for range in pool.pool.ranges.ranges() {
            with_host(it, pool, range, host, findings);
        }
    }
}

fn describe(pool: &PlacedPool) -> String {
    match pool.name() {
        Some(name) => format!("pool {name}"),
        None => format!("{}", pool.pool.ranges),
    }
}

/// Two pools share addresses, and don't know of each other's reservations.
fn between(pool: &PlacedPool, other: &PlacedPool, whose: &str, findings: &mut Findings<'_>) {
    if pool.directory == other.directory {
        return;
    }
    for range in pool.pool.ranges.ranges() {
        let overlapping = other
            .pool
            .ranges
            .ranges()
            .iter()
            .find_map(|theirs| theirs.addresses().intersection(range.addresses()));
        if let Some(both) = overlapping {
            findings.error(
                &key(pool),
                format!("{both} is given by {whose}, too; each address would be given twice"),
                "ranges that don't overlap, or one named pool for both networks",
            );
        }
    }
}

fn with_host(
    it: &Checked<'_>,
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
    let name = it.conflist.name.as_str();
    for (is_installed, default, whose) in defaults {
        let default: IpNet = default.parse().expect("it is a subnet");
        if is_installed && share(subnet, default) && !name.eq_ignore_ascii_case(whose) {
            findings.warning(
                &key(pool),
                format!("{subnet} overlaps {default}, the default network of {whose}, which is installed"),
                "another subnet",
            );
        }
    }
    let Some(main) = it.network.as_ref().map(|it| &it.main) else {
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

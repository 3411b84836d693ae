//! Warns of settings that are accepted, and hardly ever meant: the subnet's own address in a range, a
//! gateway that is none, one owner for all workloads, keys that nobody reads.

use std::net::IpAddr;

use ipam::Range;

use crate::check::conflist_check::ConflistCheck;
use crate::network::{HOST_LOCAL, IPAM_DS_RULES, Network};
use crate::pools::PlacedPool;

/// Keys of `ipam` that neither our delegates nor host-local read.
const UNREAD: [(&str, &str); 2] = [
    ("args", "\"args\" beside \"ipam\""),
    (
        "dns",
        "\"resolvConf\", or \"dns\" in a pool of ipam-ds-rules",
    ),
];

/// The beginning of the names of our delegates.
const OUR_DELEGATES: &str = "ipam-d";

impl ConflistCheck<'_> {
    /// Addresses and gateways that hosts don't use so.
    pub(super) fn check_unusual_addresses(&mut self) {
        let checked = self.checked;
        for placed in &checked.pools.all {
            for range in placed.pool.ranges.ranges() {
                let edges = edge_addresses(range);
                for (ip, what) in edges.into_iter().filter(|(ip, _)| range.gives(*ip)) {
                    let problem = format!("{ip} is the {what} of {}", range.subnet());
                    let instead = format!("a range without it, or \"exclude\": [\"{ip}\"]");
                    self.warning(&placed.key_in_conflist(), problem, instead);
                }
                if let Some(problem) = gateway_problem(range, &checked.pools.all) {
                    let instead = "the router's address in the subnet";
                    self.warning(&placed.key_in_conflist(), problem, instead);
                }
            }
        }
    }

    /// Owners that many workloads would have in common. An invalid catalogue is found by STATUS.
    pub(super) fn check_shared_owners(&mut self, network: &Network) {
        if !network.has_delegate(IPAM_DS_RULES) {
            return;
        }
        for rule in ipam_ds_rules::shared_owners(&network.config).unwrap_or_default() {
            let problem = "all containers for which the rule holds have one address";
            let instead = "a fact that differs between workloads, such as ${K8S_POD_NAME}";
            self.warning(&format!("{rule}.owner"), problem, instead);
        }
    }

    /// Keys that nobody reads, unless a delegate is another project's.
    pub(super) fn check_unread_keys(&mut self, network: &Network) {
        let mut delegates = network.delegates.iter().map(|delegate| delegate.as_str());
        if !delegates.all(|name| name.starts_with(OUR_DELEGATES) || name == HOST_LOCAL) {
            return;
        }
        let ipam = network.ipam();
        for (key, instead) in UNREAD {
            if ipam.get(key).is_some_and(|raw| raw.get() != "null") {
                let problem = format!("no delegate reads ipam.{key}");
                self.warning(&format!("ipam.{key}"), problem, instead);
            }
        }
    }
}

/// The addresses of a range's subnet that no host has.
fn edge_addresses(range: &Range) -> Vec<(IpAddr, &'static str)> {
    let subnet = range.subnet();
    let (first, last) = (subnet.network(), subnet.broadcast());
    match first {
        _ if subnet.prefix_len() + 2 > subnet.max_prefix_len() => Vec::new(),
        IpAddr::V4(_) => vec![(first, "network address"), (last, "broadcast address")],
        IpAddr::V6(_) => vec![(first, "subnet-router anycast address")],
    }
}

/// What is wrong with the gateway of a range.
fn gateway_problem(range: &Range, all: &[PlacedPool]) -> Option<String> {
    let (gateway, subnet) = (range.gateway()?, range.subnet());
    if gateway.is_unspecified() {
        return Some(format!("the gateway {gateway} is no router"));
    }
    // A link-local one is on each link: whoever writes it means it.
    let is_link_local = match gateway {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    if !subnet.contains(&gateway) && !is_link_local {
        return Some(format!("the gateway {gateway} is outside of {subnet}"));
    }
    let ranges = all.iter().flat_map(|placed| placed.pool.ranges.ranges());
    // It isn't given there, but the range seems to be meant otherwise.
    let has_gateway_inside = |other: &&Range| {
        let mut excluded = other.excluded().iter();
        other.addresses().contains(gateway)
            && other.gateway() != Some(gateway)
            && !excluded.any(|excluded| excluded.contains(gateway))
    };
    let mut others = ranges.filter(|other| *other != range);
    let other = others.find(has_gateway_inside)?;
    Some(format!(
        "the gateway {gateway} of {range} is an address of {other}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pools::KnownPools;

    /// The problems of a pool of these ranges.
    fn problems(ranges: &str) -> Vec<String> {
        let content = format!(
            r#"{{"cniVersion":"1.0.0","name":"n","plugins":[{{"type":"bridge","ipam":{{"type":"host-local","ranges":{ranges}}}}}]}}"#
        );
        let path = std::path::Path::new("/nowhere/n.conflist");
        let list = conflist::Conflist::parse(path, content.as_bytes()).unwrap();
        let environment = cni::Environment::default().with("CNI_PATH", "/nowhere");
        let network = Network::of(&list, &environment).unwrap().unwrap();
        let mut pools = KnownPools::default();
        pools.add_configured(&network, &environment);
        assert!(pools.problems.is_empty(), "{:?}", pools.problems);
        let ranges = pools
            .all
            .iter()
            .flat_map(|placed| placed.pool.ranges.ranges());
        let mut problems = Vec::new();
        for range in ranges {
            let edges = edge_addresses(range).into_iter();
            let given = edges.filter(|(ip, _)| range.gives(*ip));
            problems.extend(given.map(|(ip, what)| format!("{ip} {what}")));
            problems.extend(gateway_problem(range, &pools.all));
        }
        problems
    }

    #[test]
    fn what_is_hardly_ever_meant_is_named() {
        for (ranges, problem) in [
            (
                r#"[[{"subnet":"10.0.0.0/24","rangeStart":"10.0.0.0"}]]"#,
                "10.0.0.0 network address",
            ),
            (
                r#"[[{"subnet":"10.0.0.0/24","rangeEnd":"10.0.0.255"}]]"#,
                "10.0.0.255 broadcast address",
            ),
            (
                r#"[[{"subnet":"fd00::/64","rangeStart":"fd00::"}]]"#,
                "fd00:: subnet-router anycast address",
            ),
            (
                r#"[[{"subnet":"10.0.0.0/24","gateway":"0.0.0.0"}]]"#,
                "the gateway 0.0.0.0 is no router",
            ),
            (
                r#"[[{"subnet":"10.0.0.0/24","gateway":"10.0.1.1"}]]"#,
                "the gateway 10.0.1.1 is outside of 10.0.0.0/24",
            ),
            (
                r#"[[{"subnet":"10.0.0.0/28","rangeEnd":"10.0.0.7"}],[{"subnet":"10.0.0.0/28","rangeStart":"10.0.0.8","gateway":"10.0.0.4"}]]"#,
                "the gateway 10.0.0.4 of 10.0.0.8-10.0.0.14 is an address of 10.0.0.1-10.0.0.7",
            ),
        ] {
            assert_eq!(problems(ranges), [problem]);
        }
    }

    #[test]
    fn what_is_deliberate_is_not_named() {
        for ranges in [
            r#"[[{"subnet":"10.0.0.0/24"}],[{"subnet":"fd00::/64"}]]"#,
            // Slices of one subnet have one gateway.
            r#"[[{"subnet":"10.0.0.0/28","rangeEnd":"10.0.0.7"}],[{"subnet":"10.0.0.0/28","rangeStart":"10.0.0.8"}]]"#,
            r#"[[{"subnet":"10.0.0.0/24","rangeStart":"10.0.0.0","rangeEnd":"10.0.0.255","exclude":["10.0.0.0","10.0.0.255"]}]]"#,
            r#"[[{"subnet":"10.0.0.0/16","rangeStart":"10.0.1.0","rangeEnd":"10.0.1.255"}]]"#,
            r#"[[{"subnet":"10.0.0.0/24","gateway":"169.254.1.1"}],[{"subnet":"fd00::/64","gateway":"fe80::1"}]]"#,
        ] {
            assert_eq!(problems(ranges), [""; 0], "{ranges}");
        }
    }
}

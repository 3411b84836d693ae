//! Main plugins: what they accept of the addresses that the chain gives.

use std::collections::BTreeSet;

use cni::Object;
use ipam::IpNet;

use crate::check::{Checked, Findings};
use crate::network::{HOST_LOCAL, RANGES};

pub(crate) fn check(it: &Checked<'_>, findings: &mut Findings<'_>) {
    gateway(it, findings);
    runtime_ranges(it, findings);
}

/// `bridge` with `isGateway` serves one IPv4 subnet.
fn gateway(it: &Checked<'_>, findings: &mut Findings<'_>) {
    let Some(network) = &it.network else { return };
    let main = &network.main;
    let key = ["isGateway", "isDefaultGateway"]
        .into_iter()
        .find(|key| main.is_set(key));
    let Some(key) = key.filter(|_| main.kind == "bridge") else {
        return;
    };
    let ranges = it
        .pools
        .iter()
        .flat_map(|placed| placed.pool.ranges.ranges());
    let subnets: BTreeSet<IpNet> = ranges
        .map(|range| range.subnet())
        .filter(|subnet| subnet.addr().is_ipv4())
        .collect();
    if subnets.len() < 2 {
        return;
    }
    let list: Vec<String> = subnets.iter().map(ToString::to_string).collect();
    let list = list.join(", ");
    if main.is_set("forceAddress") {
        findings.error(
            "forceAddress",
            format!("bridge takes its address away from the containers of one subnet when another of {list} comes"),
            "slices of one subnet, without forceAddress (docs/bridges-and-subnets.md)",
        );
    } else {
        findings.error(
            key,
            format!("bridge serves one IPv4 subnet, and refuses the second of {list}"),
            "slices of one subnet, or a router of your own (docs/bridges-and-subnets.md)",
        );
    }
}

/// A runtime sends `ipRanges` only to a plugin that declares the capability.
fn runtime_ranges(it: &Checked<'_>, findings: &mut Findings<'_>) {
    let Some(network) = &it.network else { return };
    let main = &network.main;
    let reads = |key: &str, inner: &str| -> bool {
        let section: Option<Object> = main.object.read("", key).ok().flatten();
        section.is_some_and(|it| it.get(inner).is_some_and(|raw| raw.get() != "false"))
    };
    let is_declared = reads("capabilities", "ipRanges");
    const INSTEAD: &str = "\"capabilities\": {\"ipRanges\": true} beside \"type\"";
    let ipam = network.ipam();
    if ipam.get("capabilities").is_some() && !is_declared {
        findings.error(
            "ipam.capabilities",
            "runtimes look for capabilities beside the plugin's type, not in ipam",
            INSTEAD,
        );
        return;
    }
    if reads("runtimeConfig", "ipRanges") && !is_declared {
        findings.error(
            "runtimeConfig.ipRanges",
            "the capability is not declared, so a runtime never sends its own ranges",
            INSTEAD,
        );
    }
    let needs_ranges = network.has_delegate(RANGES) || network.has_delegate(HOST_LOCAL);
    let has_ranges = ["ranges", "subnet"].iter().any(|key| {
        ipam.get(key)
            .is_some_and(|raw| !matches!(raw.get(), "null" | "[]"))
    });
    if needs_ranges && !has_ranges && !is_declared && !reads("runtimeConfig", "ipRanges") {
        findings.error(
            "ipam.ranges",
            "there is no range to give addresses from, and the runtime is not asked for one",
            format!("\"ranges\": [[{{\"subnet\": \"10.1.0.0/16\"}}]], or {INSTEAD}"),
        );
    }
}

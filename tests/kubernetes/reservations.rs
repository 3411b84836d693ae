//! Compares a cluster's reservations with its pods.

use std::collections::BTreeMap;
use std::fs;

use harness::{KubernetesCluster, KubernetesNode};

/// Addresses with the ID of the container that holds each.
type Holders = BTreeMap<String, String>;

/// The reservations of all pools and networks of a node.
pub(super) fn reserved(node: &KubernetesNode) -> Holders {
    let mut all = Holders::new();
    let folders = fs::read_dir(node.path("/var/lib/cni/networks"));
    for folder in folders.into_iter().flatten().flatten() {
        for file in fs::read_dir(folder.path()).into_iter().flatten().flatten() {
            let name = file.file_name().into_string().unwrap();
            let is_address = name.parse::<std::net::IpAddr>().is_ok();
            // The address may be released meanwhile.
            let Ok(content) = fs::read_to_string(file.path()) else {
                continue;
            };
            if is_address {
                let holder = content.lines().next().unwrap_or_default();
                all.insert(name, holder.to_owned());
            }
        }
    }
    all
}

/// Waits until the reservations of each node are those of its running pods, and no pod is starting
/// or ending.
#[track_caller]
pub(super) fn reserved_is_running(cluster: &KubernetesCluster) {
    cluster.wait_for_none("reserved is running", || {
        let of_node = |node| differences(cluster, node);
        cluster.nodes().iter().flat_map(of_node).collect()
    });
    let nodes = cluster.nodes().iter();
    let mut addresses: Vec<String> = nodes
        .flat_map(reserved)
        .map(|reservation| reservation.0)
        .collect();
    let number = addresses.len();
    addresses.sort();
    addresses.dedup();
    assert_eq!(addresses.len(), number, "an address is given twice");
}

/// Asserts that `ipamctl leaks` finds nothing on any node.
#[track_caller]
pub(super) fn no_leaks(cluster: &KubernetesCluster) {
    for node in cluster.nodes() {
        let leaks = node.sh("/opt/cni/sbin/ipamctl leaks --json");
        assert_eq!(leaks.trim(), "[]", "{}", node.name());
    }
}

/// Differences between the reservations of a node and its pods.
fn differences(cluster: &KubernetesCluster, node: &KubernetesNode) -> Vec<String> {
    let mut holders = reserved(node);
    let sandboxes = node.sandboxes();
    let mut found = Vec::new();
    for pod in cluster.pods() {
        if pod.node != node.name() || pod.on_host {
            continue;
        }
        match holders.remove(&pod.address) {
            _ if !pod.is_ready => found.push(format!("{pod:?} isn't ready")),
            Some(holder) if sandboxes.contains(&holder) => {}
            holder => found.push(format!("{pod:?} is {holder:?}")),
        }
    }
    found.extend(
        holders
            .into_iter()
            .map(|holder| format!("no pod: {holder:?}")),
    );
    found
}

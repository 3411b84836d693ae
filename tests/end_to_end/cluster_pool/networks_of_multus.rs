//! `ipamctl` on a node whose networks are NetworkAttachmentDefinitions: no conflist leads to the
//! cluster of their pools.

use std::fs;

use harness::{Call, KUBECTL, KUBERNETES_PROGRAMS, Output, needs};
use serde_json::{Value, json};

use super::api_cluster::ApiCluster;
use crate::cluster::pool_cluster::PoolCluster;

/// Runs a command in a mount namespace with empty `/var/lib` and `/run`: `ipam.kubernetes` has its
/// default folders there.
const WITH_EMPTY_FOLDERS: [&str; 6] = [
    "unshare",
    "--mount",
    "sh",
    "-ec",
    "mount -t tmpfs none /var/lib; mount -t tmpfs none /run; exec \"$@\"",
    "sh",
];

/// A call of `ipamctl` on n1. The records are in the default folder.
fn call(cluster: &ApiCluster, words: &[&str]) -> Call {
    let state = cluster.sandbox.root().join("n1/state");
    let places = ["--state-dir", state.to_str().unwrap()];
    cluster.sandbox.ipamctl(&[words, &places].concat())
}

fn ipamctl(cluster: &ApiCluster, words: &[&str]) -> Output {
    call(cluster, words).run()
}

#[track_caller]
fn succeeds(output: Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    output.stdout
}

/// The conflist of the cluster's own network, which keeps its addresses on the node.
fn write_own_network(cluster: &ApiCluster) {
    let sandbox = &cluster.sandbox;
    let slice = sandbox.root().join("slice");
    let ranges = json!({"ranges": [[{"subnet": "10.9.0.0/24"}]], "dataDir": slice});
    let delegates = ["ipam-ds-ranges", "ipam-da-host-local"];
    let mut tenants = sandbox.config("1.1.0", &delegates, &ranges);
    tenants["name"] = json!("tenants");
    sandbox.write_conflist("10-tenants.conflist", &tenants);
}

fn begin(cluster: &ApiCluster, nodes: &[&str]) {
    let kubeconfig = cluster.api.kubeconfig();
    let option = ["--kubeconfig", kubeconfig.to_str().unwrap()];
    let words = [&["reconcile", "--begin"], nodes, &option].concat();
    succeeds(ipamctl(cluster, &words));
}

#[test]
fn a_network_without_a_conflist_is_seen_collected_and_reconciled_by_its_records() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let mut cluster = ApiCluster::default();
    write_own_network(&cluster);
    let shared: &dyn PoolCluster = &cluster;
    shared.define("lan", &json!({"subnet": "10.1.0.0/24"}));
    shared.define("fast", &json!({"subnet": "10.2.0.0/24", "block": 28}));
    let of = |network: &str, pool: &str, allocators: &[&str]| -> Value {
        let mut config = shared.config("n1", allocators, &json!([{"name": pool}]));
        config["name"] = json!(network);
        config
    };
    let lan = of("lan", "lan", &shared.addresses());
    let fast = of("fast", "fast", &shared.in_blocks());
    shared.add("gone", &lan).result();
    cluster.save();
    let shared: &dyn PoolCluster = &cluster;
    let living = shared.add("living", &lan).ips().remove(0);
    shared.add("quick", &fast).result();
    let blocks = shared.blocks("fast");

    let valid = cluster.sandbox.root().join("valid");
    fs::write(&valid, "living\nquick\n").unwrap();
    let valid = ["--valid", valid.to_str().unwrap(), "--older-than", "0s"];
    let leaks = ipamctl(&cluster, &[&["leaks"], &valid[..]].concat());
    assert!(leaks.stdout.contains("gone"), "{leaks:?}");
    // The containers of the sandbox have no network namespaces.
    let gc = [&["gc", "--even-in-use"], &valid[..]].concat();
    succeeds(ipamctl(&cluster, &gc));
    let held = cluster.reserved("lan");
    assert_eq!(held, std::slice::from_ref(&living));
    let pools = succeeds(ipamctl(&cluster, &["pools", "--network", "lan"]));
    assert!(pools.contains("10.1.0.1-10.1.0.254"), "{pools}");
    let all = succeeds(ipamctl(&cluster, &["ls", "--all-nodes"]));
    assert!(all.contains(&living), "{all}");
    let named = succeeds(ipamctl(&cluster, &["node-register", "--yes"]));
    assert!(named.ends_with("this machine is node n1 now\n"), "{named}");

    cluster.restore();
    begin(&cluster, &["n1"]);
    let reconciled = succeeds(ipamctl(&cluster, &["reconcile"]));
    assert!(
        reconciled.contains(&format!("{living} of pool lan")) && reconciled.contains(&blocks[0]),
        "{reconciled}"
    );
    assert!(cluster.reserved("lan").contains(&living));
    assert_eq!(cluster.blocks("fast"), blocks);
    assert_eq!(cluster.marks(), Vec::<String>::new());
    let shared: &dyn PoolCluster = &cluster;
    shared.add("new", &lan).result();
}

#[test]
fn a_node_without_a_record_ends_its_mark_with_its_kubeconfig() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let cluster = ApiCluster::default();
    write_own_network(&cluster);
    begin(&cluster, &["n1", "n2"]);
    let unknown = ipamctl(&cluster, &["reconcile"]);
    let said = "no conflist and no record leads to a cluster";
    assert!(unknown.stderr.contains(said), "{unknown:?}");
    let kubeconfig = cluster.api.kubeconfig_of_node("n1");
    let kubeconfig = ["--kubeconfig", kubeconfig.to_str().unwrap()];
    let ended = |words: &[&str]| {
        let words = [words, &kubeconfig, &["--node", "n1"]].concat();
        succeeds(call(&cluster, &words).through(&WITH_EMPTY_FOLDERS).run())
    };
    let named = ended(&["node-register", "--yes"]);
    assert!(named.ends_with("this machine is node n1 now\n"), "{named}");
    // Its files are gone with the mount namespace, as on a new disk.
    cluster.lose_registrations();
    let reconciled = ended(&["reconcile"]);
    assert!(
        reconciled.contains("0 addresses and blocks"),
        "{reconciled}"
    );
    assert_eq!(cluster.marks(), ["n2"]);
}

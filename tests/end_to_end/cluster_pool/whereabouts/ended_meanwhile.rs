//! A pod ends after its address was taken over, and before its network uses our plugins: no DEL
//! releases the address. The networks are NetworkAttachmentDefinitions, so the nodes have no
//! conflists of them.

use std::fs;

use harness::{KUBECTL, KUBERNETES_PROGRAMS, Output, needs};

use super::{Administered, DELEGATES, cluster, take_over};

/// `ipamctl` on a node whose records are in the default folder, with a list without the pod's
/// container.
fn with_list(cluster: &Administered, node: &str, words: &[&str]) -> Output {
    let root = cluster.sandbox.root();
    let valid = root.join("valid");
    fs::write(&valid, "c-own\n").unwrap();
    let state = root.join(node).join("state");
    let options = ["--valid", valid.to_str().unwrap(), "--older-than", "0s"];
    let places = ["--state-dir", state.to_str().unwrap()];
    let words = [words, &options, &places].concat();
    cluster.sandbox.ipamctl(&words).run()
}

#[test]
fn gc_releases_it_on_a_node_with_a_record_and_kubectl_elsewhere() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let cluster = cluster();
    let [n1, n2] = ["n1", "n2"].map(|node| cluster.config(node, &DELEGATES, "lan"));
    take_over(&cluster, &[]);
    cluster.call("ADD", "c-own", &n1).result();
    let is_held = |ip: &str| cluster.addresses().contains(&format!("lan.{ip}"));
    assert!(is_held("10.40.0.7") && is_held("10.40.1.1"));

    let leaks = with_list(&cluster, "n1", &["leaks"]);
    assert_eq!(leaks.status.code(), Some(1), "{leaks:?}");
    assert!(leaks.stdout.contains("10.40.0.7"), "{leaks:?}");
    let collected = with_list(&cluster, "n1", &["gc"]);
    assert!(collected.stdout.contains("released"), "{collected:?}");
    assert!(!is_held("10.40.0.7"), "{collected:?}");

    // Nothing leads to the cluster from here.
    let leaks = with_list(&cluster, "n2", &["leaks"]);
    let said = "No leak is known in the networks of the conflists and the records.\n";
    assert_eq!(leaks.stdout, said, "{leaks:?}");
    let words = ["delete", "addresses.ipam-delegated.io", "lan.10.40.1.1"];
    cluster.api.kubectl(&words);
    cluster.call("ADD", "c-new", &n2).result();
    cluster.call("DEL", "c-new", &n2).nothing();
    let del = cluster.sandbox.call("ipam-delegated", "DEL", &n2);
    let del = del.container("c-db").env("CNI_IFNAME", "net1");
    del.run().nothing();
    assert!(!is_held("10.40.1.1"));
}

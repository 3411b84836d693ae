//! Pods with addresses of the cluster's pools of both families, with an API server that is slow and
//! whose answers are lost, and with one that was restored from an older state.

use std::collections::BTreeSet;
use std::time::Duration;

use harness::{KubernetesCluster, NODES, claim};
use serde_json::{Value, json};

use super::behind_multus::{attached, network, second_address, second_addresses, start};
use super::choices::pool;
use super::one_pool::held;

/// The addresses that these pods have in the API.
fn held_by(cluster: &KubernetesCluster, pods: &[&str]) -> BTreeSet<String> {
    let of_them = held(cluster).into_iter();
    let of_them = of_them.filter(|[pod, ..]| pods.contains(&pod.as_str()));
    of_them.map(|[_, ip, _]| ip).collect()
}

/// Waits for pods beside the three that are there.
#[track_caller]
fn wait_for_further(cluster: &KubernetesCluster, pods: &[&str]) {
    cluster.wait_for_pods("shop", 3 + pods.len());
}

pub(super) fn an_interface_has_addresses_of_both_families(cluster: &KubernetesCluster) {
    claim("a second interface with an IPv4 and an IPv6 address of the cluster's pools");
    let lan = cluster.sh("kubectl get net-attach-def lan -o 'jsonpath={.spec.config}'");
    let mut config: Value = serde_json::from_str(&lan).unwrap();
    config["name"] = json!("both");
    config["plugins"][0]["ipam"]["pools"] = json!([{"name": "lan"}, {"name": "lan6"}]);
    let network = network("default", "both", &config.to_string());
    cluster.apply_all(&[pool("lan6", &json!({"subnet": "fd40::/64"})), network]);
    let pods = ["r", "s"];
    for (pod, node) in pods.into_iter().zip(NODES) {
        start(cluster, pod, node, "default/both");
    }
    wait_for_further(cluster, &pods);
    let [of_r, of_s] = pods.map(|pod| second_addresses(cluster, pod));
    assert!(of_r[0].starts_with("10.40.") && of_r[1].starts_with("fd40::"));
    let of_both = of_r.into_iter().chain(of_s.clone()).collect();
    assert_eq!(held_by(cluster, &pods), of_both);
    for ip in of_s {
        cluster.sh(&format!("kubectl -n shop exec r -- ping -c 1 -w 10 {ip}"));
    }
    cluster.sh("kubectl -n shop delete pods r s");
    assert!(held_by(cluster, &pods).is_empty());
}

pub(super) fn pods_come_and_go_though_answers_are_late_or_lost(cluster: &KubernetesCluster) {
    claim("pods come and go while the API server is slow, and connections to it are cut");
    // The kubelets and Multus reach it by another address.
    for node in cluster.nodes() {
        node.sh(
            "(while sleep 0.03; do ss -H -K dst 10.96.0.1 >> /run/cut 2>&1; done) > /dev/null 2>&1 &
            echo $! > /run/cutter",
        );
    }
    let pods = ["s0", "s1", "s2", "s3", "s4", "s5"];
    let slow = |cluster: &KubernetesCluster| {
        for _ in 0..6 {
            cluster
                .control_plane
                .pause_api_server(Duration::from_millis(700));
            std::thread::sleep(Duration::from_millis(700));
        }
    };
    for (number, pod) in pods.into_iter().enumerate() {
        start(cluster, pod, NODES[number % 2], "default/lan");
    }
    slow(cluster);
    wait_for_further(cluster, &pods);
    let addresses = pods.map(|pod| second_address(cluster, pod));
    assert_eq!(BTreeSet::from(addresses.clone()).len(), pods.len());
    cluster.wait_for("the addresses of failed attempts are released", || {
        held_by(cluster, &pods) == BTreeSet::from(addresses.clone())
    });

    let names = pods.join(" ");
    cluster.sh(&format!("kubectl -n shop delete pods {names} --wait=false"));
    slow(cluster);
    for node in cluster.nodes() {
        node.sh("kill $(cat /run/cutter)");
        assert!(!node.sh("cat /run/cut").is_empty(), "{}", node.name());
    }
    wait_for_further(cluster, &[]);
    cluster.wait_for("their addresses are released", || {
        held_by(cluster, &pods).is_empty()
    });
}

pub(super) fn a_restored_state_is_reconciled(cluster: &mut KubernetesCluster) {
    claim("after a restore, the page's steps claim what is used and release what isn't");
    let pods = ["t", "u"];
    for pod in pods {
        let pod = attached(pod, NODES[0], "default/lan");
        cluster.apply(&pod.to_string());
    }
    wait_for_further(cluster, &pods);
    let of_t = second_address(cluster, "t");
    cluster.control_plane.snapshot();
    // t has a new sandbox and another address; u is gone, and its address is back later.
    cluster.sh("kubectl -n shop delete pod u");
    let node = cluster.node(0);
    let sandbox = node.sh(&node.crictl("pods --quiet --name=^t$ --state=ready"));
    node.sh(&node.crictl(&format!("stopp {sandbox}")));
    let is_another = || {
        let held = held_by(cluster, &pods);
        held.len() == 1 && !held.contains(&of_t)
    };
    cluster.wait_for("the new address of t", is_another);
    wait_for_further(cluster, &["t"]);
    let new = held_by(cluster, &pods);

    for node in cluster.nodes() {
        node.kill("kubelet");
    }
    cluster.control_plane.restore();
    assert!(held_by(cluster, &pods).is_disjoint(&new));
    let tool = "/opt/cni/sbin/ipamctl";
    for node in cluster.nodes() {
        let valid = node.crictl("pods --quiet --no-trunc --state ready");
        node.sh(&format!("{valid} | {tool} gc --valid - --older-than 0s"));
        node.sh(&format!("{tool} reconcile"));
    }
    assert_eq!(held_by(cluster, &pods), new);
    for number in 0..NODES.len() {
        cluster.node_mut(number).start_kubelet();
    }
    wait_for_further(cluster, &pods);
    cluster.sh("kubectl -n shop delete pods t u");
    cluster.wait_for("their addresses are released", || {
        held_by(cluster, &pods).is_empty()
    });
}

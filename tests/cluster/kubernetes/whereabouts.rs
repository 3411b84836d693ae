//! `ipamctl import --from-whereabouts` with objects as whereabouts and Multus write them.

use harness::{KUBECTL, KUBERNETES_PROGRAMS, Output, foreign_kind, needs};
use serde_json::{Value, json};

use super::Cluster;
use crate::pool_cluster::PoolCluster;

fn ip_pool(name: &str, range: &str, allocations: &Value) -> Value {
    json!({
        "apiVersion": "whereabouts.cni.cncf.io/v1alpha1",
        "kind": "IPPool",
        "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {"range": range, "allocations": allocations},
    })
}

/// A pod with a second interface that has this address.
fn pod(name: &str, node: &str, ip: &str) -> Value {
    let status = json!([{"name": "default/lan", "interface": "net1", "ips": [ip]}]);
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "kube-system",
            "annotations": {"k8s.v1.cni.cncf.io/network-status": status.to_string()},
        },
        "spec": {
            "nodeName": node,
            "serviceAccountName": "ipam-delegated",
            "automountServiceAccountToken": false,
            "containers": [{"name": "main", "image": "none"}],
        },
    })
}

fn allocation(container: &str, pod: &str) -> Value {
    json!({"id": container, "podref": format!("kube-system/{pod}"), "ifname": "net1"})
}

#[test]
fn what_whereabouts_has_given_to_living_pods_is_claimed() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let cluster = Cluster::default();
    let kind = foreign_kind("ippools.whereabouts.cni.cncf.io", "v1alpha1", "IPPool");
    cluster.api.apply(&kind);
    cluster
        .api
        .kubectl(&["wait", "--for=condition=Established", "crd", "--all"]);
    cluster.api.apply(&json!([
        ip_pool(
            "10.40.0.0-24",
            "10.40.0.0/24",
            &json!({
                "5": allocation("c5", "web-0"),
                "6": allocation("c6", "ended"),
                "7": allocation("c7", "web-1"),
                "8": allocation("c8", "web-0"),
            })
        ),
        ip_pool(
            "10.41.0.0-24",
            "10.41.0.0/24",
            &json!({"5": allocation("d5", "web-0")})
        ),
        pod("web-0", "n1", "10.40.0.5"),
        pod("web-1", "n2", "10.40.0.7"),
    ]));
    cluster.define("lan", &json!({"subnet": "10.40.0.0/24"}));
    // Another space has the same addresses.
    cluster.define("blue", &json!({"subnet": "10.40.0.0/24", "space": "blue"}));
    let import = || {
        let from = ["import", "--from-whereabouts"];
        let to = ["--pool", "lan", "--network", "testnet"];
        let output = cluster.as_administrator("n1", &[&from[..], &to].concat());
        // What can't be imported is a finding.
        let [ended, other] = [
            "10.40.0.6 of pod kube-system/ended",
            "10.40.0.8 of pod kube-system/web-0",
        ];
        output.failed(1, [ended, other]);
        output
    };
    let count = |output: &Output, outcome: &str| output.stdout.matches(outcome).count();
    assert_eq!(count(&import(), "claimed"), 2);
    let held = [
        "10.40.0.5 n1/testnet/c5:net1",
        "10.40.0.7 n2/testnet/c7:net1",
    ];
    assert_eq!(cluster.addresses(), held);
    assert_eq!(count(&import(), "held"), 2);
    // The attachment's DEL, by the network's new configuration.
    let mut config = cluster.config("n1", &json!([{"name": "lan"}]));
    config["prevResult"] = json!({"cniVersion": "1.1.0", "ips": [{"address": "10.40.0.5/24"}]});
    cluster
        .alone("DEL", "c5", &config)
        .env("CNI_IFNAME", "net1")
        .run()
        .nothing();
    assert_eq!(cluster.addresses(), &held[1..]);
}

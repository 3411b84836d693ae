//! The steps of `docs/kubernetes.md` that replace `host-local` on a node with running pods, and
//! the way back.

use std::fs;

use harness::{KubernetesCluster, KubernetesNode, claim, pod};
use serde_json::{Value, json};

use super::reservations::{reserved, reserved_is_running};

/// The conflist of a node before the take-over.
fn before(number: usize) -> Value {
    json!({"cniVersion": "1.0.0", "name": "net", "plugins": [
        {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true, "ipam": {
            "type": "host-local",
            "ranges": [[{"subnet": format!("10.244.{number}.0/24")}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        }},
        {"type": "portmap", "capabilities": {"portMappings": true}},
    ]})
}

/// The same conflist with two keys changed.
fn after(number: usize) -> Value {
    let mut conflist = before(number);
    let ipam = &mut conflist["plugins"][0]["ipam"];
    ipam["type"] = json!("ipam-delegated");
    ipam["delegates"] = json!(["ipam-ds-ranges", "ipam-da-host-local"]);
    conflist
}

/// Replaces the node's conflist atomically.
fn use_conflist(node: &KubernetesNode, conflist: &Value) {
    fs::write(node.path("/etc/cni/new.conflist"), conflist.to_string()).unwrap();
    node.sh("mv /etc/cni/new.conflist /etc/cni/net.d/10-net.conflist.new
             mv /etc/cni/net.d/10-net.conflist.new /etc/cni/net.d/10-net.conflist");
}

#[track_caller]
fn start(cluster: &KubernetesCluster, name: &str) {
    for node in cluster.nodes() {
        let name = format!("{name}-{}", node.name());
        cluster.apply(&pod("default", &name, Some(node.name())).to_string());
    }
}

fn stop(cluster: &KubernetesCluster, name: &str) {
    cluster.sh(&format!(
        "kubectl delete pods {name}-worker-1 {name}-worker-2"
    ));
}

/// Nodes are taken over from `host-local` with their pods, and go back, on a cluster in which
/// nothing is installed. It is so again at the end.
pub(super) fn from_host_local_and_back(cluster: &KubernetesCluster) {
    for (number, node) in cluster.nodes().iter().enumerate() {
        use_conflist(node, &before(number + 1));
    }
    cluster.wait_for_ready_nodes();
    for name in ["one", "two", "three"] {
        start(cluster, name);
    }
    cluster.wait_for_pods("default", 6);
    let of_host_local: Vec<_> = cluster.nodes().iter().map(reserved).collect();

    claim("daemonset.yaml alone installs the plugins, and nothing else changes");
    cluster.sh("kubectl apply -f daemonset.yaml");
    cluster.as_documented(&["kubectl -n kube-system rollout status daemonset/ipam-delegated"]);
    for node in cluster.nodes() {
        node.sh("/opt/cni/bin/ipam-delegated --version");
        assert_eq!(node.sh("ls /etc/cni/net.d/*.conflist").lines().count(), 1);
    }

    claim("the next ADD and DEL of old and new pods go through the chain");
    for (number, node) in cluster.nodes().iter().enumerate() {
        let new = after(number + 1).to_string();
        fs::write(node.path("/etc/cni/new.conflist"), new).unwrap();
        node.sh("/opt/cni/sbin/ipamctl check /etc/cni/new.conflist");
        use_conflist(node, &after(number + 1));
        assert_eq!(reserved(node), of_host_local[number]);
    }
    start(cluster, "four");
    cluster.wait_for_pods("default", 8);
    stop(cluster, "one");
    for node in cluster.nodes() {
        let listed = node.sh("/opt/cni/sbin/ipamctl ls");
        assert_eq!(listed.matches("10.244.").count(), 3, "{listed}");
    }
    cluster.wait_for_pods("default", 6);
    reserved_is_running(cluster);

    claim("the pods of host-local are no leaks for certain");
    for node in cluster.nodes() {
        let leaks = node.sh("/opt/cni/sbin/ipamctl leaks");
        assert_eq!(leaks.matches("unknown: no record").count(), 2, "{leaks}");
        assert_eq!(leaks.matches("10.244.").count(), 2, "{leaks}");
    }

    claim("back: host-local stops the pods of the chain, and gives addresses beside theirs");
    for (number, node) in cluster.nodes().iter().enumerate() {
        use_conflist(node, &before(number + 1));
    }
    start(cluster, "five");
    cluster.wait_for_pods("default", 8);
    stop(cluster, "four");
    stop(cluster, "two");
    cluster.wait_for_pods("default", 4);
    reserved_is_running(cluster);

    cluster.sh("kubectl delete -f daemonset.yaml; kubectl delete pods --all");
    for node in cluster.nodes() {
        node.sh("rm -r /etc/cni/net.d/* /opt/cni/bin/ipam-* /opt/cni/sbin /var/lib/cni/*");
    }
    cluster.wait_for("no node has a network", || cluster.ready_nodes().is_empty());
}

//! The life of pods with containerd 2.3 and CNI 1.1.0: STATUS, restarts of all daemons, forced
//! deletion, loss of power.

use harness::{KubernetesCluster, claim, workload};

use super::collect_garbage;
use super::reservations::{no_leaks, reserved, reserved_is_running};

/// Namespaces with a Deployment each.
const NAMESPACES: [&str; 3] = ["shop", "green", "blue"];

/// Pods of a Deployment while daemons restart.
const PODS: usize = 4;

/// Waits until each Deployment has this many pods.
#[track_caller]
fn all_run(cluster: &KubernetesCluster, pods: usize) {
    for namespace in NAMESPACES {
        cluster.wait_for_pods(namespace, pods);
    }
    reserved_is_running(cluster);
    no_leaks(cluster);
}

/// Runs a command of kubectl in all of the namespaces.
fn in_all(cluster: &KubernetesCluster, command: &str) {
    let commands = NAMESPACES.map(|namespace| format!("kubectl -n {namespace} {command}"));
    cluster.sh(&commands.join("\n"));
}

fn status_reaches_the_node(cluster: &KubernetesCluster) {
    let node = cluster.node(0);
    // A running installer would restore the catalogue.
    node.sh("kill -STOP $(pgrep -x ipam-installer)");
    node.sh("mv /etc/cni/ipam.d /etc/cni/away");
    let of_ready = "{.status.conditions[?(@.type==\"Ready\")].message}";
    let message = format!("kubectl get node worker-1 -o 'jsonpath={of_ready}'");
    cluster.wait_for("the message", || cluster.sh(&message).contains("ipam.d"));
    assert_eq!(cluster.ready_nodes(), ["worker-2"]);
    node.sh("mv /etc/cni/away /etc/cni/ipam.d");
    node.sh("kill -CONT $(pgrep -x ipam-installer)");
    cluster.wait_for_ready_nodes();
}

/// After every restart, deletion and loss, the reserved addresses are those of running pods. On a
/// cluster with the installation and without pods.
pub(super) fn of_pods(cluster: &mut KubernetesCluster) {
    collect_garbage(cluster);

    claim("STATUS: a node without its catalogue is not ready, and says why");
    status_reaches_the_node(cluster);

    claim("thirty pods in three namespaces");
    for namespace in NAMESPACES {
        cluster.make_namespace(namespace);
        cluster.apply(&workload("Deployment", namespace, "web", 10).to_string());
    }
    all_run(cluster, 10);

    claim("more than half of them end");
    in_all(cluster, &format!("scale deployment/web --replicas={PODS}"));
    all_run(cluster, PODS);

    claim("rolling restarts");
    in_all(cluster, "rollout restart deployment/web");
    in_all(cluster, "rollout status deployment/web");
    all_run(cluster, PODS);

    claim("the container runtime is killed while pods are replaced");
    in_all(cluster, "delete pods --all --wait=false");
    cluster.node(0).kill("runtime");
    cluster.node_mut(0).start_runtime();
    all_run(cluster, PODS);

    claim("the kubelet is killed while pods are replaced");
    in_all(cluster, "delete pods --all --wait=false");
    cluster.node(0).kill("kubelet");
    cluster.node_mut(0).start_kubelet();
    all_run(cluster, PODS);

    claim("pods are deleted by force");
    in_all(cluster, "delete pods --all --force --grace-period=0");
    all_run(cluster, PODS);

    claim("a node with pods loses its power, and boots");
    assert!(!reserved(cluster.node(0)).is_empty());
    cluster.cut_power(0);
    cluster.boot(0);
    all_run(cluster, PODS);

    claim("the pods are deleted");
    cluster.sh(&format!(
        "kubectl delete namespaces {} --wait=false",
        NAMESPACES.join(" ")
    ));
    for namespace in NAMESPACES {
        cluster.wait_for_pods(namespace, 0);
    }
    reserved_is_running(cluster);
    no_leaks(cluster);
    for node in cluster.nodes() {
        assert!(reserved(node).is_empty());
    }
}

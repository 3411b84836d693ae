//! `conflists-gc.yaml`: garbage collection by CRI-O when it starts, and STATUS by containerd 2.3.

use harness::{ContainerRuntime, KubernetesCluster, claim, pod};

use super::reservations::{no_leaks, reserved, reserved_is_running};
use super::{cluster, install_with};

fn three_pods_on_worker_1(cluster: &KubernetesCluster) {
    cluster.make_namespace("shop");
    for name in ["one", "two", "three"] {
        cluster.apply(&pod("shop", name, Some("worker-1")).to_string());
    }
    cluster.wait_for_pods("shop", 3);
    reserved_is_running(cluster);
    no_leaks(cluster);
}

#[test]
fn crio_releases_when_it_starts_what_was_lost_while_it_was_down() {
    let Some(mut cluster) = cluster("garbage collection", ContainerRuntime::Crio) else {
        return;
    };
    install_with(&cluster, "conflists-gc.yaml");
    three_pods_on_worker_1(&cluster);

    claim("pods that a loss of power has ended are released, without a kubelet");
    cluster.cut_power(0);
    cluster.sh("kubectl -n shop delete pods --all --force --grace-period=0");
    // The runtime has never heard of this one.
    let stray = cluster
        .node(0)
        .path("/var/lib/cni/networks/shop/10.244.1.90");
    std::fs::write(stray, "stray\r\neth0\r\ntenants").unwrap();
    assert_eq!(reserved(cluster.node(0)).len(), 4);
    cluster.boot_without_kubelet(0);
    cluster.wait_for("GC", || reserved(cluster.node(0)).is_empty());
    no_leaks(&cluster);
}

#[test]
fn containerd_2_asks_for_the_status() {
    let Some(cluster) = cluster("STATUS", ContainerRuntime::Containerd) else {
        return;
    };
    install_with(&cluster, "conflists-gc.yaml");

    claim("a node without its catalogue is not ready, and says why");
    let node = cluster.node(0);
    node.sh("kill -STOP $(pgrep -x ipam-installer)");
    node.sh("mv /etc/cni/ipam.d /etc/cni/away");
    let condition = "kubectl get node worker-1 -o 'jsonpath={.status.conditions[?(@.type==\"Ready\")].message}'";
    cluster.wait_for("the message", || cluster.sh(condition).contains("ipam.d"));
    assert_eq!(cluster.ready_nodes(), ["worker-2"]);
    node.sh("mv /etc/cni/away /etc/cni/ipam.d");
    cluster.wait_for_ready_nodes();
}

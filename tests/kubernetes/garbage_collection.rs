//! `conflists-gc.yaml` with CRI-O, which collects garbage when it starts.

use std::fs;

use harness::{KubernetesCluster, claim, pod};

use super::collect_garbage;
use super::reservations::{no_leaks, reserved, reserved_is_running};

/// Pods that a loss of power has ended, on a cluster without pods.
pub(super) fn releases_when_it_starts(cluster: &mut KubernetesCluster) {
    collect_garbage(cluster);
    cluster.make_namespace("shop");
    for name in ["one", "two", "three"] {
        cluster.apply(&pod("shop", name, Some("worker-1")).to_string());
    }
    cluster.wait_for_pods("shop", 3);
    reserved_is_running(cluster);
    no_leaks(cluster);

    claim("pods that a loss of power has ended are released, without a kubelet");
    cluster.cut_power(0);
    cluster.sh("kubectl -n shop delete pods --all --force --grace-period=0");
    // The runtime doesn't know this container.
    let stray = cluster
        .node(0)
        .path("/var/lib/cni/networks/pools/10.244.1.90");
    fs::write(stray, "stray\r\neth0\r\ntenants").unwrap();
    assert_eq!(reserved(cluster.node(0)).len(), 4);
    cluster.boot_without_kubelet(0);
    cluster.wait_for("GC", || reserved(cluster.node(0)).is_empty());
    no_leaks(cluster);
}

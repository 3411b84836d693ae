//! Each container runtime: a pod of a namespace has an address of the namespace's pool.

use harness::{ContainerRuntime, KubernetesCluster, claim, pod};

use super::{cluster, install};

fn pods_come_and_go(cluster: &KubernetesCluster) {
    claim("a pod has an address of the pool of its namespace, and it is free again after the pod");
    cluster.make_namespace("shop");
    cluster.make_namespace("other");
    for (namespace, node) in [("shop", "worker-1"), ("other", "worker-2")] {
        cluster.apply(&pod(namespace, "web", Some(node)).to_string());
        cluster.wait_for_pods(namespace, 1);
    }
    let address = |namespace| cluster.pod(namespace, "web").unwrap().address;
    assert_eq!(address("shop"), "10.244.1.10");
    assert_eq!(address("other"), "10.244.2.100");
    let reserved = |number: usize, pool: &str, address: &str| {
        let networks = cluster.node(number).path("/var/lib/cni/networks");
        networks.join(pool).join(address).exists()
    };
    assert!(reserved(0, "shop", "10.244.1.10") && reserved(1, "rest", "10.244.2.100"));
    cluster.sh("kubectl -n shop delete pod web; kubectl -n other delete pod web");
    assert!(!reserved(0, "shop", "10.244.1.10") && !reserved(1, "rest", "10.244.2.100"));
}

#[test]
fn pods_of_containerd_get_addresses() {
    let Some(cluster) = cluster("containerd", ContainerRuntime::Containerd) else {
        return;
    };
    install(&cluster);
    pods_come_and_go(&cluster);
}

#[test]
fn pods_of_containerd_1_6_get_addresses() {
    let Some(cluster) = cluster("containerd 1.6", ContainerRuntime::OldContainerd) else {
        return;
    };
    install(&cluster);
    pods_come_and_go(&cluster);
}
#[test]
fn pods_of_crio_get_addresses() {
    let Some(cluster) = cluster("CRI-O", ContainerRuntime::Crio) else {
        return;
    };
    install(&cluster);
    pods_come_and_go(&cluster);
}

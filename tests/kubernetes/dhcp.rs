//! The overlay of `docs/dhcp.md`: pods of two nodes with addresses of a real DHCP server.

use std::collections::BTreeSet;

use harness::{DNSMASQ, KubernetesCluster, NODES, assert_has, claim};

use super::behind_multus::{second_address, start};

/// Connects a machine with this address to the wire of the nodes' `eth1`.
pub(super) fn connect_a_machine(cluster: &KubernetesCluster, name: &str, address: &str) {
    cluster.sh(&format!(
        "ip netns add {name}
         ip link add wire-{name} type veth peer name eth0 netns {name}
         ip link set wire-{name} master second up
         ip -n {name} addr add {address} dev eth0
         ip -n {name} link set eth0 up"
    ));
}

fn start_server(cluster: &KubernetesCluster) {
    cluster.sh(&format!(
        "ip netns exec server {DNSMASQ} --conf-file=/dev/null --user=root --port=0 --interface=eth0 \
         --bind-interfaces --no-ping --dhcp-authoritative --pid-file=/run/dhcp.pid \
         --dhcp-range=10.60.0.50,10.60.0.99,2m --dhcp-leasefile=/run/leases"
    ));
}

/// The addresses in the server's file.
fn leases(cluster: &KubernetesCluster) -> BTreeSet<String> {
    let file = cluster.sh("cat /run/leases");
    let addresses = file.lines().filter_map(|line| line.split(' ').nth(2));
    addresses.map(str::to_owned).collect()
}

/// On a cluster with the installation, Multus and the namespace `shop`, without pods.
pub(super) fn leases_survive_restarts(cluster: &mut KubernetesCluster) {
    claim("the overlay of DHCP: pods of both nodes have addresses of a server");
    connect_a_machine(cluster, "server", "10.60.0.1/24");
    start_server(cluster);
    cluster.as_documented(&[
        "kubectl apply -k docs/kubernetes-dhcp",
        "kubectl -n kube-system rollout status daemonset/ipam-delegated",
    ]);
    let pods = ["p", "q"];
    for (pod, node) in pods.into_iter().zip(NODES) {
        start(cluster, pod, node, "default/lan");
    }
    cluster.wait_for_pods("shop", pods.len());
    let given = pods.map(|pod| second_address(cluster, pod));
    let held = BTreeSet::from(given.clone());
    assert_eq!(leases(cluster), held);
    let reach = format!("kubectl -n shop exec p -- ping -c 1 -w 10 {}", given[1]);
    cluster.sh(&reach);

    claim("they keep them while kubelets, the server without its file, and the DaemonSet restart");
    for number in 0..NODES.len() {
        cluster.node(number).kill("kubelet");
        cluster.node_mut(number).start_kubelet();
    }
    cluster.sh("kill $(cat /run/dhcp.pid); rm /run/leases");
    start_server(cluster);
    assert!(leases(cluster).is_empty());
    cluster.sh("kubectl -n kube-system rollout restart daemonset/ipam-delegated");
    cluster.sh("kubectl -n kube-system rollout status daemonset/ipam-delegated");
    cluster.wait_for("both leases are renewed", || leases(cluster) == held);
    cluster.sh(&reach);
    for (pod, address) in pods.into_iter().zip(given) {
        assert_eq!(second_address(cluster, pod), address);
        let shown = cluster.sh(&format!("kubectl -n shop exec {pod} -- ip addr show net1"));
        assert!(shown.contains(&format!("{address}/24")), "{shown}");
    }

    claim("the end of the pods releases the leases");
    cluster.sh("kubectl -n shop delete pods --all");
    cluster.wait_for("no lease", || leases(cluster).is_empty());

    claim("the patch of the removal finds the installer beside the other container");
    let patched = cluster.sh(
        "kubectl -n kube-system patch daemonset ipam-delegated --patch \"$(cat uninstall.yaml)\" \
         --dry-run=server -o 'jsonpath={.spec.template.spec.containers[*].command}'",
    );
    assert_has(&patched, ["--uninstall", "dhcp-renew"]);
}

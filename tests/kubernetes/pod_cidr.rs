//! `kubectl apply -k`, with the subnets that Kubernetes assigns to its nodes.

use harness::{KubernetesCluster, NODES, claim, pod};

use super::reservations::{no_leaks, reserved_is_running};
use super::{assert_rights, is_not_ready};

/// The subnet of a node's pods.
fn subnet(number: usize) -> String {
    format!("10.244.{}.0/24", 7 + number)
}

/// Sets a node's subnet, as the cluster's controllers do.
fn give_subnet(cluster: &KubernetesCluster, number: usize) {
    let (node, subnet) = (NODES[number], subnet(number));
    let spec = format!(r#"{{"spec": {{"podCIDR": "{subnet}", "podCIDRs": ["{subnet}"]}}}}"#);
    cluster.sh(&format!("kubectl patch node {node} --patch '{spec}'"));
}

/// Makes the API server's service address reachable, as kube-proxy does.
pub(super) fn reach_the_api_server(cluster: &KubernetesCluster) {
    let server = cluster.sh("kubectl get endpoints kubernetes -o 'jsonpath={.subsets[0].addresses[0].ip}:{.subsets[0].ports[0].port}'");
    for node in cluster.nodes() {
        for chain in ["OUTPUT", "PREROUTING"] {
            node.sh(&format!(
                "iptables -t nat -A {chain} -d 10.96.0.1 -p tcp --dport 443 -j DNAT --to-destination {server}"
            ));
        }
    }
}

/// Pods have addresses of the podCIDR of their node, with one ConfigMap. On a cluster with the
/// installation, the namespace `red`, and without pods.
pub(super) fn gives_pods_their_addresses(cluster: &KubernetesCluster) {
    for node in cluster.nodes() {
        // It has an address of another subnet.
        node.sh("ip link del cni0");
    }
    claim("a Node without a podCIDR keeps what it has, and the pod says what is missing");
    let pools = |number: usize| {
        let file = cluster.node(number).path("/etc/cni/ipam.d/10-pools.json");
        std::fs::read_to_string(file).unwrap()
    };
    cluster.as_documented(&["kubectl apply -k docs/kubernetes-pod-cidr"]);
    cluster.wait_for("a probe names the service address", || {
        is_not_ready(cluster, "https://10.96.0.1:443/api/v1/nodes/worker-")
    });
    reach_the_api_server(cluster);
    cluster.wait_for("a probe says that there is no podCIDR", || {
        is_not_ready(cluster, "the Node has no spec.podCIDRs")
    });
    for number in 0..NODES.len() {
        assert!(pools(number).contains("\"rest\""), "{}", pools(number));
    }

    claim("with it, all is ready");
    (0..NODES.len()).for_each(|number| give_subnet(cluster, number));
    cluster.as_documented(&["kubectl -n kube-system rollout status daemonset/ipam-delegated"]);
    for number in 0..NODES.len() {
        assert!(pools(number).contains(&subnet(number)), "{}", pools(number));
    }
    let config = "kubectl -n kube-system get configmap ipam-delegated-pools -o 'jsonpath={.data}'";
    assert!(!cluster.sh(config).contains("worker-"));

    claim("pods have addresses of their node's podCIDR");
    for (number, node) in NODES.into_iter().enumerate() {
        let name = format!("on-{node}");
        cluster.apply(&pod("red", &name, Some(node)).to_string());
        let prefix = subnet(number).replace("0/24", "");
        cluster.wait_for("an address of the node's podCIDR", || {
            let pod = cluster.pod("red", &name);
            pod.is_some_and(|pod| pod.is_ready && pod.address.starts_with(&prefix))
        });
    }
    reserved_is_running(cluster);
    no_leaks(cluster);

    claim("the service account may do nothing else");
    let rights = [
        (true, "get nodes"),
        (false, "list nodes"),
        (false, "patch nodes"),
        (false, "get pods -A"),
        (false, "get secrets -A"),
    ];
    assert_rights(cluster, "ipam-delegated", &rights);
}

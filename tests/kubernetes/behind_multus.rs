//! A second interface with Multus and macvlan: a pool for each node, and a pool for the whole
//! cluster in etcd and in Kubernetes' API.

use std::collections::BTreeSet;
use std::fs;
use std::net::Ipv4Addr;

use harness::{
    ContainerRuntime, DNSMASQ, ETCDCTL, KubernetesCluster, NODES, blocks, claim, document,
    ip_of_key, is_sampled, kubernetes_programs, needs, pod,
};
use serde_json::{Value, json};

use super::{cluster, dhcp, one_pool};

/// The resource that Multus installs.
const DEFINITION: &str = r#"{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
    "metadata": {"name": "network-attachment-definitions.k8s.cni.cncf.io"},
    "spec": {"group": "k8s.cni.cncf.io", "scope": "Namespaced",
        "names": {"plural": "network-attachment-definitions", "singular": "network-attachment-definition",
            "kind": "NetworkAttachmentDefinition", "shortNames": ["net-attach-def"]},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
            "type": "object", "properties": {"spec": {"type": "object", "properties": {"config": {"type": "string"}}}}}}}]}}"#;

/// Configures Multus before the cluster's network on every node. On the second one, it forgets an
/// attachment whose DEL has failed.
pub(super) fn install_multus(cluster: &KubernetesCluster) {
    cluster.apply(DEFINITION);
    for (number, node) in cluster.nodes().iter().enumerate() {
        let multus = kubernetes_programs().unwrap().join("multus");
        fs::copy(multus, node.path("/opt/cni/bin/multus")).unwrap();
        let conf = json!({
            "cniVersion": "0.3.1",
            "name": "multus",
            "type": "multus",
            "kubeconfig": cluster.kubeconfig(),
            "clusterNetwork": "/etc/cni/net.d/10-tenants.conflist",
            "retryDeleteOnError": number == 0,
        });
        fs::write(node.path("/etc/cni/net.d/multus"), conf.to_string()).unwrap();
        node.sh("mv /etc/cni/net.d/multus /etc/cni/net.d/00-multus.conf");
    }
    cluster.wait_for_ready_nodes();
}

/// A network of Multus with this configuration.
pub(super) fn network(namespace: &str, name: &str, config: &str) -> Value {
    json!({"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": name, "namespace": namespace}, "spec": {"config": config}})
}

/// Defines pool and network of the page, with the endpoint of the cluster's etcd.
fn define_the_cluster_pool(cluster: &KubernetesCluster) {
    let [_, pools, config]: [String; 3] = blocks(&document("docs/cluster.md"), "json")
        .try_into()
        .unwrap();
    cluster.apply(&network("shop", "lan", &config).to_string());
    let settings = json!({"endpoints": [cluster.etcd()]});
    for node in cluster.nodes() {
        fs::write(node.path("/etc/cni/ipam-etcd.json"), settings.to_string()).unwrap();
        let folder = node.path("/etc/cni/lan.d");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("10-lan.conflist"), &config).unwrap();
        fs::write(folder.join("pools"), &pools).unwrap();
    }
    cluster
        .node(0)
        .sh("/opt/cni/sbin/ipamctl import /etc/cni/lan.d/pools --conf-dir /etc/cni/lan.d");
}

/// A pod with a second interface of this network.
pub(super) fn attached(name: &str, node: &str, network: &str) -> Value {
    let mut pod = pod("shop", name, Some(node));
    pod["metadata"]["annotations"] = json!({"k8s.v1.cni.cncf.io/networks": network});
    pod
}

/// Starts a pod with a second interface of this network.
pub(super) fn start(cluster: &KubernetesCluster, name: &str, node: &str, network: &str) {
    cluster.apply(&attached(name, node, network).to_string());
}

/// The address of a pod's second interface, as Multus has reported it.
#[track_caller]
pub(super) fn second_address(cluster: &KubernetesCluster, name: &str) -> String {
    second_addresses(cluster, name).swap_remove(0)
}

/// The addresses of a pod's second interface, as Multus has reported them.
#[track_caller]
pub(super) fn second_addresses(cluster: &KubernetesCluster, name: &str) -> Vec<String> {
    let pods = cluster.objects("/api/v1/namespaces/shop/pods").unwrap();
    let pod = pods.iter().find(|pod| pod["metadata"]["name"] == name);
    let pod = pod.unwrap_or_else(|| panic!("no pod {name}"));
    let status = pod["metadata"]["annotations"]["k8s.v1.cni.cncf.io/network-status"].as_str();
    let status: Value = serde_json::from_str(status.unwrap()).unwrap();
    let all = status.as_array().unwrap();
    let second = all
        .iter()
        .find(|network| network["interface"] == "net1")
        .unwrap();
    serde_json::from_value(second["ips"].clone()).unwrap()
}

/// The addresses in etcd.
fn in_etcd(cluster: &KubernetesCluster) -> BTreeSet<String> {
    let keys = cluster.sh(&format!(
        "ETCDCTL_API=3 {ETCDCTL} --endpoints={} get --prefix --keys-only /ipam/v1/addresses/",
        cluster.etcd()
    ));
    let names = keys.lines().filter_map(|key| key.rsplit('/').next());
    let names = names.filter(|name| !name.is_empty());
    names.map(|name| ip_of_key(name).to_string()).collect()
}

#[test]
fn second_interfaces_have_addresses_of_their_node_of_etcd_or_of_the_api() {
    needs!(ETCDCTL, DNSMASQ);
    if !is_sampled(1) {
        return;
    }
    let Some(mut cluster) = cluster(ContainerRuntime::Containerd) else {
        return;
    };
    cluster.as_documented(&[
        "kubectl apply -f pools.yaml -f conflists.yaml -f daemonset.yaml",
        "kubectl -n kube-system rollout status daemonset/ipam-delegated",
    ]);
    cluster.wait_for_ready_nodes();
    cluster.make_namespace("shop");
    install_multus(&cluster);

    claim("network-attachment-definition.yaml as it is: each node has its slice");
    cluster.sh("kubectl apply -f network-attachment-definition.yaml");
    for node in cluster.nodes() {
        cluster.wait_for("the catalogue", || {
            node.path("/etc/cni/storage.d/20-rules.json").exists()
        });
    }
    for (name, node) in ["one", "two"].into_iter().zip(NODES) {
        start(&cluster, name, node, "storage");
    }
    cluster.wait_for_pods("shop", 2);
    for (name, slice) in [("one", 100..150), ("two", 150..200)] {
        let address: Ipv4Addr = second_address(&cluster, name).parse().unwrap();
        let [network @ .., host] = address.octets();
        assert_eq!(network, [192, 168, 50], "{name}: {address}");
        assert!(slice.contains(&host), "{name}: {address}");
    }
    let of_two = second_address(&cluster, "two");
    cluster.sh(&format!(
        "kubectl -n shop exec one -- ping -c 1 -w 10 {of_two}"
    ));
    cluster.sh("kubectl -n shop delete pods --all");
    for node in cluster.nodes() {
        assert!(
            super::reservations::reserved(node).is_empty(),
            "{}",
            node.name()
        );
    }

    claim("a pool of the whole cluster: addresses are unique over both nodes");
    define_the_cluster_pool(&cluster);
    let names = ["a", "b", "c", "d", "e", "f"];
    for (number, name) in names.into_iter().enumerate() {
        start(&cluster, name, NODES[number % 2], "lan");
    }
    cluster.wait_for_pods("shop", names.len());
    let held: BTreeSet<String> = names
        .iter()
        .map(|name| second_address(&cluster, name))
        .collect();
    assert_eq!(held.len(), names.len());
    assert_eq!(in_etcd(&cluster), held);
    let of_b = second_address(&cluster, "b");
    cluster.sh(&format!("kubectl -n shop exec a -- ping -c 1 -w 10 {of_b}"));

    claim("a pod that moves to the other node releases its address on the first");
    cluster.sh("kubectl -n shop delete pod a");
    assert_eq!(in_etcd(&cluster).len(), 5);
    start(&cluster, "a", NODES[1], "lan");
    cluster.wait_for_pods("shop", names.len());
    assert_eq!(in_etcd(&cluster).len(), 6);

    cluster.sh("kubectl -n shop delete pods --all");
    assert!(in_etcd(&cluster).is_empty());

    dhcp::leases_survive_restarts(&mut cluster);
    one_pool::pods_of_both_nodes_have_addresses_of_one_pool(&mut cluster);
}

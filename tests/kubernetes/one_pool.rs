//! One pool for the whole cluster in Kubernetes' API: the example of
//! `docs/kubernetes-cluster-pool`, with Multus and macvlan on two nodes.

use std::collections::BTreeSet;

use harness::{ContainerRuntime, DNSMASQ, KubernetesCluster, NODES, claim, needs};
use serde_json::Value;

use super::pod_cidr::reach_the_api_server;
use super::second_interface::{install_multus, second_address, start};
use super::{cluster, collector, install};

/// The pods of `kubectl get addresses`, each with its address and its node.
pub(super) fn held(cluster: &KubernetesCluster) -> BTreeSet<[String; 3]> {
    let list: Value = serde_json::from_str(&cluster.sh("kubectl get addresses -o json")).unwrap();
    let text = |spec: &Value, key: &str| spec[key].as_str().unwrap_or_default().to_owned();
    let of = |item: &Value| ["pod", "ip", "node"].map(|key| text(&item["spec"], key));
    list["items"].as_array().unwrap().iter().map(of).collect()
}

/// Waits for the second interfaces of these pods, and compares them with the API's addresses.
#[track_caller]
fn agree(cluster: &KubernetesCluster, pods: &[(&str, usize)]) {
    cluster.wait_for_pods("shop", pods.len());
    let expected = pods.iter().map(|(pod, node)| {
        let address = second_address(cluster, pod);
        [(*pod).to_owned(), address, NODES[*node].to_owned()]
    });
    assert_eq!(held(cluster), expected.collect());
}

#[test]
fn pods_of_both_nodes_have_addresses_of_one_pool_in_the_api() {
    needs!(DNSMASQ);
    let Some(mut cluster) = cluster(ContainerRuntime::Containerd) else {
        return;
    };
    install(&cluster);
    cluster.make_namespace("shop");
    install_multus(&cluster);
    reach_the_api_server(&cluster);

    claim("the example, applied as its page says");
    cluster.sh("kubectl apply -k ../kubernetes-cluster-pool
         kubectl wait --for=condition=Established crd -l app.kubernetes.io/name=ipam-delegated
         kubectl apply -k ../kubernetes-cluster-pool/example");
    cluster.sh("kubectl -n kube-system rollout status daemonset/ipam-delegated");
    for node in cluster.nodes() {
        cluster.wait_for("the kubeconfig", || {
            let kubeconfig = "/etc/cni/net.d/ipam-delegated.kubeconfig";
            node.path(kubeconfig).exists()
        });
    }
    cluster.wait_for_ready_nodes();

    claim("pods of both nodes, and kubectl get addresses shows them");
    let pods = [("a", 0), ("b", 1), ("c", 0), ("d", 1)];
    for (pod, node) in pods {
        start(&cluster, pod, NODES[node], "default/lan");
    }
    agree(&cluster, &pods);
    let of_b = second_address(&cluster, "b");
    cluster.sh(&format!("kubectl -n shop exec a -- ping -c 1 -w 10 {of_b}"));

    claim("a pod that moves, and one that is deleted by force");
    cluster.sh("kubectl -n shop delete pod a");
    start(&cluster, "a", NODES[1], "default/lan");
    cluster.sh("kubectl -n shop delete pod c --force --grace-period=0");
    cluster.wait_for("the address of c is released", || {
        held(&cluster).iter().all(|[pod, ..]| pod != "c")
    });
    agree(&cluster, &[("a", 1), ("b", 1), ("d", 1)]);

    claim("what a lost node holds stays until it is back");
    start(&cluster, "e", NODES[0], "default/lan");
    cluster.wait_for_pods("shop", 4);
    let lost = second_address(&cluster, "e");
    cluster.cut_power(0);
    cluster.sh("kubectl -n shop delete pod e --force --grace-period=0");
    start(&cluster, "f", NODES[1], "default/lan");
    cluster.wait_for_pods("shop", 4);
    assert_ne!(second_address(&cluster, "f"), lost);
    assert!(held(&cluster).iter().any(|[_, ip, _]| *ip == lost));
    cluster.boot(0);
    reach_the_api_server(&cluster);
    cluster.wait_for("the lost address is released", || {
        held(&cluster).iter().all(|[_, ip, _]| *ip != lost)
    });

    // It is scheduled within a minute.
    collector::apply(&cluster);

    cluster.sh("kubectl -n shop delete pods --all");
    assert!(held(&cluster).is_empty(), "{:?}", held(&cluster));

    claim("the collector runs by its schedule, in its pod");
    collector::has_run(&cluster);
    collector::forgets_nodes_that_stay_deleted(&mut cluster);
}

//! One pool for the whole cluster in Kubernetes' API: the example of
//! `docs/kubernetes-cluster-pool`, with Multus and macvlan on two nodes.

use std::collections::BTreeSet;
use std::fs;

use harness::{
    KubernetesCluster, KubernetesNode, NODES, POD_IMAGE, assert_has, blocks, claim, document,
    repository,
};
use serde_json::{Value, json};

use super::behind_multus::{attached, second_address, start};
use super::pod_cidr::reach_the_api_server;
use super::reservations::reserved;
use super::{choices, cluster_faults, collector, is_not_ready, owners};

/// The pods of the objects `Address`, each with its address and its node.
pub(super) fn held(cluster: &KubernetesCluster) -> BTreeSet<[String; 3]> {
    let list = cluster.objects("/apis/ipam-delegated.io/v1/addresses");
    let text = |spec: &Value, key: &str| spec[key].as_str().unwrap_or_default().to_owned();
    let of = |item: &Value| ["pod", "ip", "node"].map(|key| text(&item["spec"], key));
    list.unwrap().iter().map(of).collect()
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

fn a_failed_del_is_repeated(cluster: &mut KubernetesCluster) {
    claim("a DEL that fails behind Multus is repeated, with and without retryDeleteOnError");
    let pods = ["m", "n"];
    for (pod, node) in pods.into_iter().zip(NODES) {
        let mut pod = attached(pod, node, "default/lan");
        // It ignores SIGTERM: when it ends, the API server is away.
        pod["spec"]["containers"][0]["command"] = json!(["/bin/sleep", "1000"]);
        cluster.apply(&pod.to_string());
    }
    cluster.wait_for_pods("shop", 5);
    cluster.sh("kubectl -n shop delete pods m n --wait=false --grace-period=10");
    let killing = "kubectl -n shop get events --field-selector=reason=Killing -o name";
    cluster.wait_for("the kubelets end them", || {
        let events = cluster.sh(killing);
        pods.iter().all(|pod| events.contains(&format!("/{pod}.")))
    });
    cluster.control_plane.stop_api_server();
    cluster.wait_for_none("DELs that have begun", || {
        let begun = "grep -q -r deleting /var/lib/cni/ipam-delegated/lan";
        let nodes = cluster.nodes().iter().filter(|node| !node.succeeds(begun));
        nodes.map(KubernetesNode::name).collect()
    });
    cluster.control_plane.start_api_server();
    cluster.wait_for("their addresses are released", || {
        let held = held(cluster);
        held.iter().all(|[pod, ..]| !pods.contains(&pod.as_str()))
    });
}

fn removal(cluster: &KubernetesCluster) {
    claim(
        "the removal waits for the pods of nodes that aren't drained, and their DELs have a token",
    );
    let page = document("docs/kubernetes-cluster-pool/README.md");
    let commands = blocks(&page, "").pop().unwrap();
    let (first, others) = commands.split_once('\n').unwrap();
    cluster.as_documented(&[first]);
    cluster.wait_for("the reason", || is_not_ready(cluster, "nothing is removed"));
    assert!(!held(cluster).is_empty());
    cluster.sh("kubectl -n shop delete pods --all");
    assert!(held(cluster).is_empty(), "{:?}", held(cluster));
    let tool = "/opt/cni/sbin/ipamctl";
    cluster.as_documented(&[others]);
    assert!(cluster.nodes().iter().all(|node| !node.path(tool).exists()));
}

/// On a cluster with the installation, Multus and the namespace `shop`, without pods.
pub(super) fn pods_of_both_nodes_have_addresses_of_one_pool(cluster: &mut KubernetesCluster) {
    reach_the_api_server(cluster);

    claim("the commands of the page, as they are, from nothing to a pod");
    let page = document("docs/cluster.md");
    let manifest = blocks(&page, "yaml").remove(0).replace("IMAGE", POD_IMAGE);
    fs::write(cluster.root().join("pod.yaml"), manifest).unwrap();
    let [here, docs] = [cluster.root().to_owned(), repository().join("docs")];
    let here = format!("cd {}; ln -s {} docs", here.display(), docs.display());
    cluster.sh(&format!("{here}\n{}", blocks(&page, "").remove(0)));
    cluster.wait_for_pods("default", 1);
    let listed = cluster.sh("kubectl get addresses");
    assert_has(&listed, ["web", "10.40."]);
    cluster.sh("kubectl delete pod web");

    claim("pods of both nodes, and kubectl get addresses shows them");
    let pods = [("a", 0), ("b", 1), ("c", 0), ("d", 1)];
    for (pod, node) in pods {
        start(cluster, pod, NODES[node], "default/lan");
    }
    agree(cluster, &pods);
    let of_b = second_address(cluster, "b");
    cluster.sh(&format!("kubectl -n shop exec a -- ping -c 1 -w 10 {of_b}"));

    claim("a pod that moves, and one that is deleted by force");
    cluster.sh("kubectl -n shop delete pod a");
    start(cluster, "a", NODES[1], "default/lan");
    cluster.sh("kubectl -n shop delete pod c --force --grace-period=0");
    cluster.wait_for("the address of c is released", || {
        held(cluster).iter().all(|[pod, ..]| pod != "c")
    });
    agree(cluster, &[("a", 1), ("b", 1), ("d", 1)]);

    a_failed_del_is_repeated(cluster);
    cluster_faults::an_interface_has_addresses_of_both_families(cluster);
    cluster_faults::pods_come_and_go_though_answers_are_late_or_lost(cluster);
    cluster_faults::a_restored_state_is_reconciled(cluster);

    claim("what a lost node holds stays until it is back");
    start(cluster, "e", NODES[0], "default/lan");
    cluster.wait_for_pods("shop", 4);
    let lost = second_address(cluster, "e");
    cluster.cut_power(0);
    cluster.sh("kubectl -n shop delete pod e --force --grace-period=0");
    start(cluster, "f", NODES[1], "default/lan");
    cluster.wait_for_pods("shop", 4);
    assert_ne!(second_address(cluster, "f"), lost);
    assert!(held(cluster).iter().any(|[_, ip, _]| *ip == lost));
    assert!(!reserved(cluster.node(0)).is_empty());
    cluster.boot(0);
    reach_the_api_server(cluster);
    cluster.wait_for(
        "the lost addresses are released, in the API and on the node",
        || {
            cluster.node(0).remove_stopped_sandboxes();
            let in_api = held(cluster).iter().any(|[_, ip, _]| *ip == lost);
            !in_api && reserved(cluster.node(0)).is_empty()
        },
    );

    cluster.sh("kubectl -n shop delete pods --all");
    assert!(held(cluster).is_empty(), "{:?}", held(cluster));

    choices::by_facts_and_probe(cluster);
    owners::keep_their_addresses(cluster);
    collector::releases_what_stays_deleted(cluster);
    owners::survive_their_node(cluster);
    removal(cluster);
}

//! Fixed addresses of a StatefulSet, and a pool that is too small for its pods.

use harness::{KubernetesCluster, NODES, claim, pod, workload};
use serde_json::{Value, json};

use super::reservations::{no_leaks, reserved_is_running};

/// A catalogue with a pinned address for `data/db-0`, sticky addresses for the other pods of
/// `data`, and a pool of ten for `small`.
fn catalogue() -> Value {
    let mut data = serde_json::Map::new();
    for (number, node) in (1..).zip(NODES) {
        let of = |first: u8, last: u8| {
            json!({
                "subnet": format!("10.244.{number}.0/24"),
                "rangeStart": format!("10.244.{number}.{first}"),
                "rangeEnd": format!("10.244.{number}.{last}"),
            })
        };
        let pools = json!({"data": of(10, 59), "ten": of(60, 69), "rest": of(100, 254)});
        data.insert(
            format!("10-pools.on.{node}.json"),
            json!(json!({"pools": pools}).to_string()),
        );
        let rules = json!({"rules": [
            {"when": {"K8S_POD_NAMESPACE": "data", "K8S_POD_NAME": "db-0"}, "pools": ["data"],
             "ip": format!("10.244.{number}.50")},
            {"when": {"K8S_POD_NAMESPACE": "data"}, "pools": ["data"],
             "sticky": "${K8S_POD_NAMESPACE}/${K8S_POD_NAME}"},
            {"when": {"K8S_POD_NAMESPACE": "small"}, "pools": ["ten"]},
            {"pools": ["rest"]},
        ]});
        data.insert(format!("20-rules.on.{node}.json"), json!(rules.to_string()));
    }
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "ipam-delegated-pools", "namespace": "kube-system"},
        "data": data,
    })
}

/// The addresses of `db-0`, `db-1` and `db-2`, once they run on this node.
#[track_caller]
fn addresses_on(cluster: &KubernetesCluster, node: &str) -> Vec<String> {
    cluster.wait_for(&format!("three pods on {node}"), || {
        let pods = cluster.pods();
        let of_it = pods
            .iter()
            .filter(|pod| pod.namespace == "data" && pod.is_ready);
        of_it.filter(|pod| pod.node == node).count() == 3
    });
    reserved_is_running(cluster);
    no_leaks(cluster);
    let pods = cluster.pods();
    let of_it = pods.into_iter().filter(|pod| pod.namespace == "data");
    of_it.map(|pod| pod.address).collect()
}

fn databases(node: &str) -> Value {
    let mut set = workload("StatefulSet", "data", "db", 3);
    set["spec"]["template"]["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": node});
    set
}

fn fifteen_pods_for_ten_addresses(cluster: &KubernetesCluster) {
    cluster.make_namespace("small");
    let pods = (0..15).map(|number| pod("small", &format!("pod-{number}"), Some(NODES[0])));
    cluster.apply_all(&pods.collect::<Vec<_>>());
    let ready = || {
        let mut pods = cluster.pods();
        pods.retain(|pod| pod.namespace == "small" && pod.is_ready);
        pods
    };
    cluster.wait_for("ten pods", || ready().len() == 10);
    let events = "kubectl -n small get events --field-selector=reason=FailedCreatePodSandBox";
    cluster.wait_for("the reason", || cluster.sh(events).contains("ten"));
    assert_eq!(ready().len(), 10);
    let first: Vec<String> = ready().into_iter().take(5).map(|pod| pod.name).collect();
    cluster.sh(&format!("kubectl -n small delete pods {}", first.join(" ")));
    cluster.wait_for("the others", || ready().len() == 10);
    reserved_is_running(cluster);
    no_leaks(cluster);
}

/// On a cluster with the installation and without pods.
pub(super) fn stay_with_a_stateful_set(cluster: &mut KubernetesCluster) {
    cluster.apply(&catalogue().to_string());
    for node in cluster.nodes() {
        cluster.wait_for("the new catalogue", || {
            node.succeeds("grep -q ten /etc/cni/ipam.d/10-pools.json && grep -q small /etc/cni/ipam.d/20-rules.json")
        });
    }
    cluster.make_namespace("data");

    claim("pods of a StatefulSet have a pinned and sticky addresses");
    cluster.apply(&databases("worker-1").to_string());
    let first = addresses_on(cluster, "worker-1");
    assert_eq!(first[0], "10.244.1.50");

    claim("they keep them when they are deleted");
    // To wait until the pods are gone: kubectl may wait for ever for one whose successor has
    // its name.
    cluster.sh("kubectl -n data scale statefulset db --replicas=0");
    cluster.wait_for_pods("data", 0);
    cluster.apply(&databases("worker-1").to_string());
    assert_eq!(addresses_on(cluster, "worker-1"), first);

    claim("they keep them when the node loses its power");
    cluster.cut_power(0);
    cluster.wait_for("the node is lost", || cluster.ready_nodes() == ["worker-2"]);
    cluster.boot(0);
    cluster.wait_for_ready_nodes();
    assert_eq!(addresses_on(cluster, "worker-1"), first);

    claim("on another node they have its addresses, and back the former ones");
    cluster.apply(&databases("worker-2").to_string());
    let second = addresses_on(cluster, "worker-2");
    assert_eq!(second[0], "10.244.2.50");
    cluster.apply(&databases("worker-1").to_string());
    assert_eq!(addresses_on(cluster, "worker-1"), first);

    claim("fifteen pods of a pool of ten wait for room");
    fifteen_pods_for_ten_addresses(cluster);
    cluster.sh("kubectl delete namespaces data small");
}

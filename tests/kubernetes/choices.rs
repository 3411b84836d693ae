//! Rules with facts of Kubernetes' API, and a probe of the wire, on a cluster's pools.

use harness::{KubernetesCluster, NODES, claim, workload};
use serde_json::{Value, json};

use super::behind_multus::{self, attached, second_address, start};
use super::dhcp::connect_a_machine;
use super::one_pool::held;

/// A network behind Multus, with these keys in its section `ipam`.
pub(super) fn network(name: &str, ipam: &Value) -> Value {
    let mut config = json!({"cniVersion": "1.0.0", "name": name, "type": "macvlan", "master": "eth1",
        "ipam": {"type": "ipam-delegated",
            "kubernetes": {"kubeconfig": "/etc/cni/net.d/ipam-delegated.kubeconfig"}}});
    let keys = ipam.as_object().unwrap().clone();
    config["ipam"].as_object_mut().unwrap().extend(keys);
    behind_multus::network("default", name, &config.to_string())
}

/// A pool of the cluster.
pub(super) fn pool(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "ipam-delegated.io/v1", "kind": "Pool", "metadata": {"name": name}, "spec": spec})
}

/// Pools and networks: `chosen` by rules, and `probed` with one address.
fn definitions() -> [Value; 9] {
    let slice = |third: u8, last: u8| {
        json!({"subnet": format!("10.50.{third}.0/24"),
            "rangeStart": format!("10.50.{third}.10"), "rangeEnd": format!("10.50.{third}.{last}")})
    };
    let rules = json!([
        {"when": {"label:app": "db", "namespace-label:tier": "data"}, "pools": ["db"],
         "ip": {"range": "10.50.1.20-10.50.1.29", "index": "${K8S_POD_NAME}"}},
        {"when": {"label:link": "yes"}, "pools": ["link"]},
        {"when": {"label:by": "node", "node": NODES[0]}, "pools": ["rack1"]},
        {"when": {"label:by": "node", "node": "*-2"}, "pools": ["rack2"]},
        {"pools": [["first", "spare"]]},
    ]);
    let pools = json!({"db": {}, "link": {}, "rack1": {}, "rack2": {}, "first": {}, "spare": {}});
    let delegates = ["ipam-df-kubernetes", "ipam-ds-rules", "ipam-da-kubernetes"];
    let probed = json!({"delegates": ["ipam-ds-static", "ipam-da-kubernetes", "ipam-dc-probe"],
        "pools": [{"name": "wire"}]});
    [
        pool("db", &slice(1, 40)),
        pool(
            "link",
            &json!({"subnet": "10.50.2.0/31", "gateway": "none"}),
        ),
        pool("rack1", &slice(3, 40)),
        pool("rack2", &slice(4, 40)),
        pool("first", &slice(5, 11)),
        pool("spare", &slice(6, 40)),
        pool("wire", &slice(7, 10)),
        network(
            "chosen",
            &json!({"delegates": delegates, "pools": pools, "rules": rules}),
        ),
        network("probed", &probed),
    ]
}

/// A pod of `chosen` with a label.
fn labelled(name: &str, node: &str, label: &str, value: &str) -> Value {
    let mut pod = attached(name, node, "default/chosen");
    pod["metadata"]["labels"] = json!({label: value});
    pod
}

/// A StatefulSet of `chosen`.
fn databases() -> Value {
    let mut set = workload("StatefulSet", "shop", "db", 3);
    set["spec"]["template"]["metadata"]["annotations"] =
        json!({"k8s.v1.cni.cncf.io/networks": "default/chosen"});
    set
}

fn are_ready(cluster: &KubernetesCluster, names: &[&str]) -> bool {
    let pods = cluster.pods();
    let ready = |name: &&str| pods.iter().any(|pod| pod.name == **name && pod.is_ready);
    names.iter().all(ready)
}

/// The addresses of pods that are ready.
#[track_caller]
fn addresses<const N: usize>(cluster: &KubernetesCluster, names: [&str; N]) -> [String; N] {
    cluster.wait_for(&format!("{names:?}"), || are_ready(cluster, &names));
    names.map(|name| second_address(cluster, name))
}

/// On a cluster with a cluster's pool and the namespace `shop`, without pods.
pub(super) fn by_facts_and_probe(cluster: &KubernetesCluster) {
    cluster.sh(
        "kubectl apply -k ../kubernetes-cluster-pool/facts; kubectl label namespace shop tier=data",
    );
    cluster.apply_all(&definitions());
    connect_a_machine(cluster, "printer", "10.50.7.10/24");
    for (name, node) in ["x", "y"].into_iter().zip(NODES) {
        start(cluster, name, node, "default/probed");
    }
    let mut pods = vec![databases()];
    for (number, node) in NODES.into_iter().enumerate() {
        pods.push(labelled(&format!("link-{number}"), node, "link", "yes"));
        pods.push(labelled(&format!("node-{number}"), node, "by", "node"));
        pods.push(labelled(&format!("shop-{number}"), node, "app", "shop"));
    }
    cluster.apply_all(&pods);

    claim("replicas have the addresses of their numbers, and keep them");
    let replicas = ["db-0", "db-1", "db-2"];
    let of_replicas = ["10.50.1.20", "10.50.1.21", "10.50.1.22"];
    assert_eq!(addresses(cluster, replicas), of_replicas);
    cluster.sh("kubectl -n shop delete pod db-1 --wait=false");
    cluster.wait_for("it ends", || !are_ready(cluster, &["db-1"]));

    claim("both addresses of a /31 without a gateway, which reach each other");
    let links = addresses(cluster, ["link-0", "link-1"]);
    assert!(links.contains(&"10.50.2.0".to_owned()) && links.contains(&"10.50.2.1".to_owned()));
    cluster.sh(&format!(
        "kubectl -n shop exec link-0 -- ping -c 1 -w 10 {}",
        links[1]
    ));

    claim("a pool of the node's name");
    let [first, second] = addresses(cluster, ["node-0", "node-1"]);
    assert!(first.starts_with("10.50.3.") && second.starts_with("10.50.4."));

    claim("the next pool when the first is full, also for a pod that claims another one's label");
    for address in addresses(cluster, ["shop-0", "shop-1"]) {
        assert!(address.starts_with("10.50.5."), "{address}");
    }
    let forged = json!([{"name": "chosen", "namespace": "default",
        "cni-args": {"labels": [{"key": "app", "value": "db"}]}}]);
    start(cluster, "forger", NODES[0], &forged.to_string());
    let [forger] = addresses(cluster, ["forger"]);
    assert!(forger.starts_with("10.50.6."), "{forger}");
    assert_eq!(addresses(cluster, replicas), of_replicas);

    claim("an address that a machine on the wire has is refused, and the pods get other ones");
    for name in ["x", "y"] {
        let events = format!("kubectl -n shop describe pod {name}");
        cluster.wait_for("the refusal", || {
            cluster
                .sh(&events)
                .contains("10.50.7.10 is in use on the wire of eth1")
        });
    }
    cluster.sh(
        r#"kubectl patch pool wire --type=merge --patch='{"spec": {"rangeEnd": "10.50.7.60"}}'"#,
    );
    for address in addresses(cluster, ["x", "y"]) {
        assert!(
            address.starts_with("10.50.7.") && address != "10.50.7.10",
            "{address}"
        );
    }
    cluster.sh("kubectl -n shop delete statefulset db; kubectl -n shop delete pods --all");
    assert!(held(cluster).is_empty(), "{:?}", held(cluster));
}

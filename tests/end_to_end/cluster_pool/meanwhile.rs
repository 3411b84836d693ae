//! People change objects by hand while nodes reserve and release addresses.

use std::process::Command;

use harness::{ApiProxy, Fate, KUBECTL, KUBERNETES_PROGRAMS, needs};
use serde_json::json;

use super::api_cluster::ApiCluster;
use crate::cluster::pool_cluster::PoolCluster;

const ALLOCATOR: &str = "ipam-da-kubernetes";

#[test]
fn an_address_that_is_annotated_while_it_is_released_is_released() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let cluster = ApiCluster::default();
    let shared: &dyn PoolCluster = &cluster;
    shared.define("red", &json!({"subnet": "10.1.0.0/24"}));
    let proxy = ApiProxy::start(&cluster.api);
    let config = shared.config("n1", &[ALLOCATOR], &json!([{"name": "red"}]));
    let config = cluster.behind(&proxy, &config);
    for command in ["DEL", "GC"] {
        for container in ["a", "b"] {
            let added = shared.alone(ALLOCATOR, "ADD", container, &config);
            added.result();
        }
        let (administrator, namespace) = (cluster.api.kubeconfig(), cluster.api.namespace());
        let mut deletions = 0;
        proxy.decide(move |request| {
            deletions += usize::from(request.method == "DELETE");
            if request.method == "DELETE" && deletions == 1 {
                namespace.enter();
                let words = ["annotate", "addresses.ipam-delegated.io", "--all"];
                let annotated = Command::new(KUBECTL)
                    .env("KUBECONFIG", &administrator)
                    .args(words)
                    .arg(format!("example.com/by={}", request.path.len()))
                    .arg("--overwrite")
                    .output()
                    .unwrap();
                assert!(annotated.status.success(), "{annotated:?}");
            }
            Fate::Answered
        });
        shared.alone(ALLOCATOR, command, "a", &config).nothing();
        let left = if command == "DEL" { 1 } else { 0 };
        assert_eq!(
            cluster.held().len(),
            left,
            "{command}: {:?}",
            cluster.held()
        );
        proxy.decide(|_| Fate::Answered);
        shared.alone(ALLOCATOR, "DEL", "b", &config).nothing();
    }
}

#[test]
fn an_address_that_was_created_by_hand_is_not_said_to_be_released() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let cluster = ApiCluster::default();
    let shared: &dyn PoolCluster = &cluster;
    shared.define("red", &json!({"subnet": "10.1.0.0/24"}));
    let config = shared.config("n1", &[ALLOCATOR], &json!([{"name": "red"}]));
    shared.alone(ALLOCATOR, "ADD", "a", &config).result();
    let address = cluster.api.objects("addresses").remove(0);
    // The second DEL finds a list that is current.
    for _ in 0..2 {
        shared.alone(ALLOCATOR, "DEL", "a", &config).nothing();
    }
    let name = address["metadata"]["name"].as_str().unwrap();
    let metadata = json!({"name": name, "labels": address["metadata"]["labels"]});
    cluster.api.put(
        "addresses",
        &json!({
            "apiVersion": "ipam-delegated.io/v1", "kind": "Address",
            "metadata": metadata, "spec": address["spec"],
        }),
    );
    let output = shared.ipamctl(&config, &["release", "--container", "a"]);
    let path = format!("addresses.ipam-delegated.io/{name} is still there");
    let said = &output.stderr;
    assert!(!output.status.success() && said.contains(&path), "{said}");
    shared.gc(&[], &config).nothing();
    assert!(cluster.held().is_empty(), "{:?}", cluster.held());
}

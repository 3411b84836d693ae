//! A node's identity has exactly the rights that its plugins need.

use std::path::PathBuf;
use std::process::Output;

use harness::{KUBECTL, KUBERNETES_PROGRAMS, KubernetesApi, needs};
use serde_json::{Value, json};

use super::objects::{address, allowed, of_owner, pool, refused};

/// An API server, and the kubeconfig of a user.
struct User<'a> {
    api: &'a KubernetesApi,
    kubeconfig: PathBuf,
}

impl User<'_> {
    fn kubectl(&self, words: &[&str]) -> Output {
        self.api.kubectl_with(&self.kubeconfig, words)
    }

    fn create(&self, object: &Value) -> Output {
        self.api.try_with("create", &self.kubeconfig, object)
    }

    fn delete(&self, address: &str) -> Output {
        self.kubectl(&["delete", "ipaddr", address])
    }
}

#[test]
fn a_node_creates_and_deletes_its_own_addresses_and_nothing_else() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let api = KubernetesApi::start().unwrap();
    api.install();
    api.apply(&json!([
        pool("lan", &json!({"subnet": "10.0.0.0/24"})),
        address("10.0.0.2", "10.0.0.2", "worker-2"),
    ]));
    let node = User {
        api: &api,
        kubeconfig: api.kubeconfig_of_node("worker-1"),
    };
    its_own_are_allowed(&node);
    those_of_other_nodes_are_refused(&node);
    those_of_owners_are_created_only(&node);
    everything_else_is_refused(&node);
    a_token_without_a_node_changes_nothing(&api);
    administrators_change_those_of_all_nodes(&api);
}

fn its_own_are_allowed(node: &User<'_>) {
    let own = address("10.0.0.5", "10.0.0.5", "worker-1");
    allowed(&node.kubectl(&["get", "ipool", "lan"]));
    allowed(&node.create(&own));
    refused(&node.create(&own), "already exists");
    allowed(&node.kubectl(&["get", "ipaddr"]));
    allowed(&node.delete("10.0.0.5"));
    // Without the label, DEL and GC of the node wouldn't find it; with another one, those of the
    // other node would.
    for labels in [json!({"ipam-delegated.io/node": "worker-2"}), json!(null)] {
        let mut labelled = own.clone();
        labelled["metadata"]["labels"] = labels;
        let text = "the label ipam-delegated.io/node must be worker-1";
        refused(&node.create(&labelled), text);
    }
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"});
    let labels: Value = (0..40).map(|i| (format!("l{i}"), json!("x"))).collect();
    for (key, value) in [
        ("finalizers", json!(["example.org/audit"])),
        ("ownerReferences", json!([owner])),
        ("annotations", json!({"a": "x".repeat(100_000)})),
        ("labels", labels),
    ] {
        let mut heavy = own.clone();
        heavy["metadata"][key] = value;
        heavy["metadata"]["labels"]["ipam-delegated.io/node"] = json!("worker-1");
        let text = "no finalizers, ownerReferences and annotations, and at most 32 labels";
        refused(&node.create(&heavy), text);
    }
    let metrics = node.api.kubectl(&["get", "--raw", "/metrics"]);
    let is_queued = |line: &str| {
        line.starts_with("apiserver_flowcontrol_dispatched_requests_total")
            && line.contains("flow_schema=\"ipam-delegated\"")
    };
    assert!(
        metrics.lines().any(is_queued),
        "the node's requests have no queue of their own"
    );
}

fn those_of_other_nodes_are_refused(node: &User<'_>) {
    let others = "node worker-1 may not change addresses of node worker-2";
    refused(&node.delete("10.0.0.2"), others);
    let created = node.create(&address("10.0.0.3", "10.0.0.3", "worker-2"));
    refused(&created, others);
}

fn those_of_owners_are_created_only(node: &User<'_>) {
    let mut owned = of_owner("10.0.0.9", "virtualmachines.kubevirt.io/prod/web");
    owned["metadata"]["labels"] = json!({"ipam-delegated.io/node": "worker-2"});
    let text = "the label ipam-delegated.io/node must be worker-1";
    refused(&node.create(&owned), text);
    owned["metadata"]["labels"] = json!({"ipam-delegated.io/owner": "0123456789abcdef"});
    allowed(&node.create(&owned));
    let of_owner = "node worker-1 may not change addresses of an owner";
    refused(&node.delete("10.0.0.9"), of_owner);
    let label = r#"{"metadata":{"labels":{"a":"b"}}}"#;
    let patch = ["patch", "ipaddr", "10.0.0.9", "--type=merge", "-p", label];
    refused(&node.kubectl(&patch), "orbidden");
}

fn everything_else_is_refused(node: &User<'_>) {
    let own = address("10.0.0.7", "10.0.0.7", "worker-1");
    allowed(&node.create(&own));
    let label = r#"{"metadata":{"labels":{"a":"b"}}}"#;
    let definition = r#"{"spec":{"routes":[]}}"#;
    let merge = |resource: &str, name: &str, patch: &str| {
        node.kubectl(&["patch", resource, name, "--type=merge", "-p", patch])
    };
    let all = "/apis/ipam-delegated.io/v1/addresses";
    for output in [
        merge("ipaddr", "10.0.0.7", label),
        node.api.try_with("replace", &node.kubeconfig, &own),
        node.kubectl(&["delete", "--raw", all]),
        merge("ipool", "lan", definition),
        node.create(&pool("mine", &json!({"subnet": "10.3.0.0/24"}))),
        node.kubectl(&["delete", "ipool", "lan"]),
        node.kubectl(&["get", "secrets", "-A"]),
        node.kubectl(&["get", "nodes"]),
        node.kubectl(&["get", "pods", "-A"]),
        node.kubectl(&["-n", "kube-system", "create", "token", "ipam-delegated"]),
        node.kubectl(&["get", "pools", "--as=administrator"]),
        node.kubectl(&["delete", "crd", "addresses.ipam-delegated.io"]),
    ] {
        refused(&output, "orbidden");
    }
    allowed(&node.delete("10.0.0.7"));
}

fn a_token_without_a_node_changes_nothing(api: &KubernetesApi) {
    let user = User {
        api,
        kubeconfig: api.kubeconfig_of_account("kube-system", "ipam-delegated"),
    };
    let unbound = "the token isn't bound to a pod on a node";
    let created = user.create(&address("10.0.0.8", "10.0.0.8", "worker-1"));
    refused(&created, unbound);
    refused(&user.delete("10.0.0.2"), unbound);
}

fn administrators_change_those_of_all_nodes(api: &KubernetesApi) {
    let role = "--clusterrole=ipam-delegated-administrator";
    let binding = ["create", "clusterrolebinding", "operators", role];
    api.kubectl(&[&binding[..], &["--user=operator"]].concat());
    let operator = User {
        api,
        kubeconfig: api.kubeconfig_of_user("operator"),
    };
    api.wait_for("the rights", || {
        operator.kubectl(&["get", "pools"]).status.success()
    });
    allowed(&operator.delete("10.0.0.2"));
    refused(&operator.kubectl(&["get", "secrets", "-A"]), "orbidden");
    // In a pod, the token of another service account names a node as well.
    api.apply_folder("docs/kubernetes-cluster-pool/collector");
    let token = api.token_in_pod("ipam-delegated-collector", "worker-1");
    let collector = User {
        api,
        kubeconfig: api.kubeconfig_with_token("collector", &token),
    };
    api.apply(&address("10.0.0.2", "10.0.0.2", "worker-2"));
    api.wait_for("the rights", || {
        collector.kubectl(&["get", "ipaddr"]).status.success()
    });
    allowed(&collector.kubectl(&["get", "nodes"]));
    allowed(&collector.delete("10.0.0.2"));
    refused(&collector.kubectl(&["delete", "ipool", "lan"]), "orbidden");
}

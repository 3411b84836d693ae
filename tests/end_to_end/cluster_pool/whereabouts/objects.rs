//! Objects of whereabouts and Multus.

use harness::KubernetesApi;
use serde_json::{Value, json};

/// A definition of a namespaced kind, with the schema of its specs.
fn definition(group: &str, version: &str, kind: &str, plural: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group,
            "names": {"kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase()},
            "scope": "Namespaced",
            "versions": [{
                "name": version, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
            }],
        },
    })
}

/// The kinds of whereabouts and Multus, as their releases define them.
fn definitions() -> Value {
    let text = json!({"type": "string"});
    let allocation = json!({
        "type": "object",
        "required": ["id", "podref"],
        "properties": {"id": text, "podref": text, "ifname": text},
    });
    let ip_pool = json!({
        "type": "object",
        "required": ["allocations", "range"],
        "properties": {"range": text, "allocations": {"type": "object", "additionalProperties": allocation}},
    });
    let reservation = json!({
        "type": "object",
        "required": ["podref"],
        "properties": {"podref": text, "ifname": text, "containerid": text},
    });
    let network = json!({"type": "object", "properties": {"config": text}});
    let group = "whereabouts.cni.cncf.io";
    let reservations = "overlappingrangeipreservations";
    json!([
        definition(group, "v1alpha1", "IPPool", "ippools", &ip_pool),
        definition(
            group,
            "v1alpha1",
            "OverlappingRangeIPReservation",
            reservations,
            &reservation
        ),
        definition(
            "k8s.cni.cncf.io",
            "v1",
            "NetworkAttachmentDefinition",
            "network-attachment-definitions",
            &network
        ),
    ])
}

/// A NetworkAttachmentDefinition in the namespace `shop`, whose network has this name.
pub(super) fn network(definition: &str, network: &str) -> Value {
    let config = json!({"cniVersion": "1.0.0", "name": network, "type": "macvlan", "ipam": {"type": "whereabouts"}});
    json!({
        "apiVersion": "k8s.cni.cncf.io/v1",
        "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": definition, "namespace": "shop"},
        "spec": {"config": config.to_string()},
    })
}

/// A pod on a node, to which Multus has attached `net1` of `shop/lan` with these addresses.
pub(super) fn pod(name: &str, node: &str, ips: &[&str]) -> Value {
    let lan = json!({"name": "shop/lan", "interface": "net1", "ips": ips});
    pod_with(name, node, vec![lan])
}

/// A pod on a node, to which Multus has attached these interfaces.
pub(super) fn pod_with(name: &str, node: &str, mut interfaces: Vec<Value>) -> Value {
    let first =
        json!({"name": "tenants", "interface": "eth0", "ips": ["10.1.0.9"], "default": true});
    interfaces.insert(0, first);
    let status = Value::Array(interfaces).to_string();
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "shop",
            "annotations": {"k8s.v1.cni.cncf.io/network-status": status},
        },
        "spec": {"nodeName": node, "automountServiceAccountToken": false, "containers": [{"name": "c", "image": "none"}]},
    })
}

/// Defines the kinds of whereabouts and Multus, and makes the namespace `shop`.
pub(super) fn prepare(api: &KubernetesApi) {
    api.apply(&definitions());
    api.kubectl(&["wait", "--for=condition=Established", "crd", "--all"]);
    api.kubectl(&["create", "namespace", "shop"]);
    api.kubectl(&["-n", "shop", "create", "serviceaccount", "default"]);
}

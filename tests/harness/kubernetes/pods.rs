//! Pods of a cluster and what runs in them: their manifests, and their state in the API server.

use serde_json::{Value, json};

use super::{KubernetesCluster, POD_IMAGE};

/// A pod, as the API server returns it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its node; empty before it is scheduled.
    pub node: String,
    /// Its address; empty before it has one.
    pub address: String,
    /// True if all of its containers are ready and it isn't being deleted.
    pub is_ready: bool,
    /// True if it uses the node's network.
    pub on_host: bool,
}

impl KubernetesCluster {
    /// All pods, sorted by namespace and name.
    #[track_caller]
    pub fn pods(&self) -> Vec<Pod> {
        let pods = self.objects("/api/v1/pods");
        let mut pods: Vec<Pod> = pods.unwrap().iter().map(read).collect();
        pods.sort();
        pods
    }

    /// A pod, by namespace and name.
    pub fn pod(&self, namespace: &str, name: &str) -> Option<Pod> {
        let is_it = |pod: &Pod| pod.namespace == namespace && pod.name == name;
        self.pods().into_iter().find(is_it)
    }

    /// Waits until the namespace has this many pods, and all are ready.
    #[track_caller]
    pub fn wait_for_pods(&self, namespace: &str, number: usize) {
        self.wait_for(&format!("{number} pods of {namespace}"), || {
            let pods = self.pods();
            let in_namespace = pods.iter().filter(|pod| pod.namespace == namespace);
            let ready = in_namespace.clone().filter(|pod| pod.is_ready).count();
            ready == number && in_namespace.count() == number
        });
    }
}

/// The manifest of a pod of [`POD_IMAGE`]; on this node, or on any.
pub fn pod(namespace: &str, name: &str, node: Option<&str>) -> Value {
    let mut spec = pod_spec();
    spec["nodeName"] = json!(node);
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name},
        "spec": spec,
    })
}

/// The manifest of a `Deployment` or a `StatefulSet`, whose pods are of [`POD_IMAGE`].
pub fn workload(kind: &str, namespace: &str, name: &str, replicas: usize) -> Value {
    let labels = json!({"app": name});
    let mut spec = json!({
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod_spec()},
    });
    if kind == "StatefulSet" {
        spec["serviceName"] = json!(name);
        spec["podManagementPolicy"] = json!("Parallel");
    }
    json!({
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"namespace": namespace, "name": name},
        "spec": spec,
    })
}

/// KubeVirt's kind of virtual machines.
pub fn kind_of_virtual_machines() -> Value {
    foreign_kind("virtualmachines.kubevirt.io", "v1", "VirtualMachine")
}

/// A kind of another project, whose objects may have any keys; `name` is its plural and its group.
pub fn foreign_kind(name: &str, version: &str, kind: &str) -> Value {
    let (plural, group) = name.split_once('.').expect("a plural and a group");
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{
                "name": version, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    })
}

/// A virtual machine of KubeVirt.
pub fn virtual_machine(namespace: &str, name: &str) -> Value {
    let metadata = json!({"namespace": namespace, "name": name});
    json!({"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": metadata})
}

fn pod_spec() -> Value {
    json!({
        "automountServiceAccountToken": false,
        "terminationGracePeriodSeconds": 2,
        "containers": [{"name": "main", "image": POD_IMAGE, "imagePullPolicy": "Never"}],
    })
}

/// True if the API server has noted that a pod or a node is ready.
pub(super) fn is_ready(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let is_true = |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
    conditions.is_some_and(|all| all.iter().any(is_true))
}

fn read(pod: &Value) -> Pod {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Pod {
        namespace: text(&pod["metadata"]["namespace"]),
        name: text(&pod["metadata"]["name"]),
        node: text(&pod["spec"]["nodeName"]),
        address: text(&pod["status"]["podIP"]),
        is_ready: is_ready(pod) && pod["metadata"]["deletionTimestamp"].is_null(),
        on_host: pod["spec"]["hostNetwork"] == true,
    }
}

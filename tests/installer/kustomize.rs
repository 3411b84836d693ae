//! `kubectl kustomize` with the kustomization of `docs/kubernetes`, and with the overlay of
//! `docs/kubernetes.md`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use harness::{KUBECTL, Sandbox, needs, repository};
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::batch::v1::CronJob;
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use k8s_openapi::api::flowcontrol::v1::{FlowSchema, PriorityLevelConfiguration};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::Deserialize;
use serde_json::Value;

use crate::manifests::{documents, strictly};

/// The documents that kubectl builds from a folder.
fn built(folder: &Path) -> Vec<Value> {
    let output = Command::new(KUBECTL)
        .arg("kustomize")
        .arg(folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let documents = yaml_serde::Deserializer::from_str(&text);
    documents
        .map(|document| Value::deserialize(document).unwrap())
        .collect()
}

fn sorted(mut all: Vec<Value>) -> Vec<Value> {
    all.sort_by_key(|object| format!("{} {}", object["kind"], object["metadata"]["name"]));
    all
}

#[test]
fn the_kustomization_is_the_three_manifests_and_an_overlay_replaces_image_and_pools() {
    needs!(KUBECTL);
    let manifests = repository().join("docs/kubernetes");
    let plain = documents().into_iter();
    let plain = plain.filter(|(file, _)| {
        ["pools.yaml", "conflists.yaml", "daemonset.yaml"].contains(&file.as_str())
    });
    let plain = sorted(plain.map(|(_, object)| object).collect());
    assert_eq!(sorted(built(&manifests)), plain);

    let sandbox = Sandbox::default();
    let [base, site] = ["ipam-delegated", "site"].map(|name| sandbox.root().join(name));
    for folder in [&base, &site] {
        fs::create_dir(folder).unwrap();
    }
    for entry in fs::read_dir(&manifests).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, base.join(path.file_name().unwrap())).unwrap();
    }
    let page = fs::read_to_string(repository().join("docs/kubernetes.md")).unwrap();
    let (_, overlay) = page
        .split_once("```yaml\n# site/kustomization.yaml\n")
        .unwrap();
    let (overlay, _) = overlay.split_once("```").unwrap();
    fs::write(site.join("kustomization.yaml"), overlay).unwrap();
    fs::write(site.join("10-pools.on.worker-1.json"), "{}").unwrap();
    fs::write(site.join("20-rules.json"), "{\"rules\": []}").unwrap();

    let mut expected = plain;
    for it in &mut expected {
        match it["metadata"]["name"].as_str().unwrap() {
            "ipam-delegated" => {
                let container = &mut it["spec"]["template"]["spec"]["containers"][0];
                container["image"] = "registry.example.com/ipam-delegated:0.1.0".into();
            }
            "ipam-delegated-pools" => {
                it["data"] = serde_json::json!({
                    "10-pools.on.worker-1.json": "{}",
                    "20-rules.json": "{\"rules\": []}",
                });
            }
            _ => {}
        }
    }
    let mut made = sorted(built(&site));
    for it in &mut made {
        // Newer versions add an annotation about the merge.
        if let Some(metadata) = it["metadata"].as_object_mut() {
            metadata.remove("annotations");
        }
    }
    assert_eq!(made, expected);
}

#[test]
fn the_kustomization_for_pod_cidr_names_no_node_and_grants_only_reading_one() {
    needs!(KUBECTL);
    let made = built(&repository().join("docs/kubernetes-pod-cidr"));
    let find = |kind: &str, name: &str| {
        let found = made
            .iter()
            .find(|object| object["kind"] == kind && object["metadata"]["name"] == name);
        found.unwrap_or_else(|| panic!("no {kind} {name}")).clone()
    };
    let account: ServiceAccount = strictly("made", &find("ServiceAccount", "ipam-delegated"));
    let binding: ClusterRoleBinding =
        strictly("made", &find("ClusterRoleBinding", "ipam-delegated"));
    let subject = &binding.subjects.unwrap()[0];
    assert_eq!(Some(&subject.name), account.metadata.name.as_ref());
    assert_eq!(subject.namespace, account.metadata.namespace);
    assert_eq!(binding.role_ref.name, "ipam-delegated");
    let role: ClusterRole = strictly("made", &find("ClusterRole", "ipam-delegated"));
    let [rule] = &role.rules.unwrap()[..] else {
        panic!("several rules");
    };
    assert_eq!(rule.verbs, ["get"]);
    assert_eq!(rule.resources.as_deref(), Some(&["nodes".to_owned()][..]));

    let pools: ConfigMap = strictly("made", &find("ConfigMap", "ipam-delegated-pools"));
    let pools = pools.data.unwrap();
    assert!(pools.keys().eq(["10-pools.json", "20-rules.json"]));
    assert!(pools["10-pools.json"].contains("\"${podCIDR}\""));
    let installer: DaemonSet = strictly("made", &find("DaemonSet", "ipam-delegated"));
    let pod = installer.spec.template.spec.unwrap();
    assert_eq!(pod.service_account_name, account.metadata.name);
    assert_eq!(pod.automount_service_account_token, Some(true));
    // The other documents are unchanged.
    assert_eq!(made.len(), 6);
    assert_eq!(pod.containers[0].args.as_ref().map(Vec::len), Some(9));
}

/// Reads each object as its type; returns the number of objects of each kind.
#[track_caller]
fn kinds(made: &[Value]) -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    for object in made {
        let kind = object["kind"].as_str().unwrap();
        *kinds.entry(kind.to_owned()).or_default() += 1;
        match kind {
            "ClusterRole" => drop(strictly::<ClusterRole>(kind, object)),
            "ClusterRoleBinding" => drop(strictly::<ClusterRoleBinding>(kind, object)),
            "ConfigMap" => drop(strictly::<ConfigMap>(kind, object)),
            "CronJob" => drop(strictly::<CronJob>(kind, object)),
            // Its limits are read as floating-point numbers, and written differently.
            "CustomResourceDefinition" => {
                drop(serde_json::from_value::<CustomResourceDefinition>(object.clone()).unwrap());
            }
            "DaemonSet" => drop(strictly::<DaemonSet>(kind, object)),
            "FlowSchema" => drop(strictly::<FlowSchema>(kind, object)),
            "PriorityLevelConfiguration" => {
                drop(strictly::<PriorityLevelConfiguration>(kind, object));
            }
            "ServiceAccount" => drop(strictly::<ServiceAccount>(kind, object)),
            "ValidatingAdmissionPolicy" => {
                drop(strictly::<ValidatingAdmissionPolicy>(kind, object));
            }
            "ValidatingAdmissionPolicyBinding" => {
                drop(strictly::<ValidatingAdmissionPolicyBinding>(kind, object));
            }
            other => panic!("{other}"),
        }
    }
    kinds
}

#[test]
fn the_kustomization_for_a_clusters_pools_is_valid_and_asks_for_a_kubeconfig() {
    needs!(KUBECTL);
    let made = built(&repository().join("docs/kubernetes-cluster-pool"));
    let expected = [
        ("ClusterRole", 2),
        ("ClusterRoleBinding", 1),
        ("CustomResourceDefinition", 2),
        ("DaemonSet", 1),
        ("FlowSchema", 1),
        ("PriorityLevelConfiguration", 1),
        ("ServiceAccount", 1),
        ("ValidatingAdmissionPolicy", 1),
        ("ValidatingAdmissionPolicyBinding", 1),
    ];
    let expected = expected.map(|(kind, number)| (kind.to_owned(), number));
    assert_eq!(kinds(&made), BTreeMap::from(expected));
    let find = |kind: &str| made.iter().find(|object| object["kind"] == kind).unwrap();
    let installer: DaemonSet = strictly("made", find("DaemonSet"));
    let pod = installer.spec.template.spec.unwrap();
    let account: ServiceAccount = strictly("made", find("ServiceAccount"));
    assert_eq!(pod.service_account_name, account.metadata.name);
    // The token is mounted only once, explicitly.
    assert_eq!(pod.automount_service_account_token, Some(false));
    let arguments = pod.containers[0].args.as_ref().unwrap();
    let kubeconfig = "--kubeconfig=/etc/cni/net.d/ipam-delegated.kubeconfig";
    assert!(arguments.iter().any(|word| word == kubeconfig));
    let mounts = pod.containers[0].volume_mounts.as_ref().unwrap().iter();
    let mut mounted: Vec<&str> = mounts.map(|mount| mount.name.as_str()).collect();
    let volumes = pod.volumes.as_ref().unwrap().iter();
    let mut volumes: Vec<&str> = volumes.map(|volume| volume.name.as_str()).collect();
    mounted.sort_unstable();
    volumes.sort_unstable();
    assert_eq!(mounted, volumes);

    let collector = built(&repository().join("docs/kubernetes-cluster-pool/collector"));
    let kinds: Vec<String> = kinds(&collector).into_keys().collect();
    let expected = [
        "ClusterRole",
        "ClusterRoleBinding",
        "ConfigMap",
        "CronJob",
        "ServiceAccount",
    ];
    assert_eq!(kinds, expected);
}

//! The manifests in `docs/kubernetes` are valid for the types of the Kubernetes API.
//!
//! The types are from `k8s-openapi`, which is generated from the published schema. They ignore
//! unknown keys, so each document is written again and compared: a missing key was unknown.

use std::collections::BTreeMap;
use std::fs;

use harness::repository;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::ConfigMap;
use serde::Deserialize;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Multus' own resource. Its schema, in the definition that Multus installs, has one key.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct NetworkAttachmentDefinition {
    api_version: String,
    kind: String,
    metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
    spec: NetworkAttachmentDefinitionSpec,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct NetworkAttachmentDefinitionSpec {
    config: String,
}

/// The patch for the removal.
const REMOVAL: &str = "uninstall.yaml";

/// The patches, which are no manifests.
const PATCHES: [&str; 2] = [REMOVAL, "machine-id.yaml"];

/// The documents of all manifests, by file.
pub(crate) fn documents() -> Vec<(String, Value)> {
    let mut documents = Vec::new();
    let folder = repository().join("docs/kubernetes");
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if PATCHES.contains(&name.as_str()) {
            continue;
        }
        for document in yaml_serde::Deserializer::from_str(&text) {
            let value = Value::deserialize(document).unwrap_or_else(|e| panic!("{name}: {e}"));
            documents.push((name.clone(), value));
        }
    }
    documents
}

/// Reads a document as this type. Unknown keys are an error.
#[track_caller]
pub(crate) fn strictly<T: DeserializeOwned + Serialize>(file: &str, document: &Value) -> T {
    let read: T =
        serde_json::from_value(document.clone()).unwrap_or_else(|e| panic!("{file}: {e}"));
    assert_eq!(serde_json::to_value(&read).unwrap(), *document, "{file}");
    read
}

#[track_caller]
pub(crate) fn daemon_set(file: &str) -> DaemonSet {
    let documents = documents();
    let (_, document) = documents.iter().find(|(name, _)| name == file).unwrap();
    strictly(file, document)
}

#[track_caller]
pub(crate) fn config_map(file: &str) -> BTreeMap<String, String> {
    let documents = documents();
    let (_, document) = documents.iter().find(|(name, _)| name == file).unwrap();
    strictly::<ConfigMap>(file, document).data.unwrap()
}

#[test]
fn every_manifest_is_of_a_known_type_without_an_unknown_key() {
    let mut kinds = Vec::new();
    for (file, document) in documents() {
        let kind = document["kind"].as_str().unwrap().to_owned();
        match (document["apiVersion"].as_str().unwrap(), &*kind) {
            ("apps/v1", "DaemonSet") => drop(strictly::<DaemonSet>(&file, &document)),
            ("v1", "ConfigMap") => drop(strictly::<ConfigMap>(&file, &document)),
            ("k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition") => {
                drop(strictly::<NetworkAttachmentDefinition>(&file, &document));
            }
            // Its consumer is kubectl.
            ("kustomize.config.k8s.io/v1beta1", "Kustomization") => {}
            other => panic!("{file}: {other:?}"),
        }
        kinds.push(kind);
    }
    kinds.sort();
    assert_eq!(
        kinds,
        [
            "ConfigMap",
            "ConfigMap",
            "ConfigMap",
            "ConfigMap",
            "DaemonSet",
            "Kustomization",
            "NetworkAttachmentDefinition"
        ]
    );
}

/// Rules of the API server that the types don't have.
#[test]
fn the_daemon_set_selects_its_pods_mounts_what_it_has_and_needs_no_capability() {
    let spec = daemon_set("daemonset.yaml").spec;
    let labels = spec.template.metadata.unwrap().labels.unwrap();
    let selector = spec.selector.match_labels.unwrap();
    assert!(
        selector
            .iter()
            .all(|(key, value)| labels.get(key) == Some(value))
    );
    let pod = spec.template.spec.unwrap();
    let volumes = pod.volumes.unwrap().into_iter();
    let mut volumes: Vec<String> = volumes.map(|volume| volume.name).collect();
    let container = &pod.containers[0];
    let mounts = container.volume_mounts.as_ref().unwrap();
    let mut mounted: Vec<String> = mounts.iter().map(|mount| mount.name.clone()).collect();
    volumes.sort();
    mounted.sort();
    assert_eq!(mounted, volumes);
    let security = container.security_context.as_ref().unwrap();
    let capabilities = security.capabilities.as_ref().unwrap();
    assert_eq!(capabilities.drop.as_deref(), Some(&["ALL".to_owned()][..]));
    assert!(capabilities.add.is_none());
    let image = container.image.as_deref().unwrap();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(image, format!("localhost/ipam-delegated:{version}"));
    assert_eq!(pod.host_network, Some(true));
}

/// Arguments of the pods that remove the installation.
fn arguments_of_removal() -> Vec<String> {
    let text = fs::read_to_string(repository().join("docs/kubernetes").join(REMOVAL)).unwrap();
    let patch: Value = yaml_serde::from_str(&text).unwrap();
    let container = &patch["spec"]["template"]["spec"]["containers"][0];
    let mut command: Vec<String> = serde_json::from_value(container["command"].clone()).unwrap();
    assert_eq!(container["name"], "installer");
    assert_eq!(command.remove(0), "/ipam-installer");
    command
}

#[test]
fn the_patch_for_the_removal_changes_what_the_daemon_set_has() {
    let spec = daemon_set("daemonset.yaml").spec;
    assert!(
        spec.update_strategy
            .unwrap()
            .rolling_update
            .unwrap()
            .max_unavailable
            .is_some()
    );
    assert_eq!(arguments_of_removal(), ["--uninstall", "--wait"]);
}

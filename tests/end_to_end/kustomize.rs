//! `kubectl kustomize` with the kustomization of `docs/kubernetes`, and with the overlay of
//! `docs/kubernetes.md`.

use std::fs;
use std::path::Path;
use std::process::Command;

use harness::{KUBECTL, Sandbox, needs, repository};
use serde::Deserialize;
use serde_json::Value;

use crate::kubernetes_manifests::documents;

/// The documents that kubectl makes of a folder.
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
        .map(|it| Value::deserialize(it).unwrap())
        .collect()
}

fn sorted(mut all: Vec<Value>) -> Vec<Value> {
    all.sort_by_key(|it| format!("{} {}", it["kind"], it["metadata"]["name"]));
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
    let plain = sorted(plain.map(|(_, it)| it).collect());
    assert_eq!(sorted(built(&manifests)), plain);

    let sandbox = Sandbox::default();
    let [base, site] = ["ipam-delegated", "site"].map(|it| sandbox.root().join(it));
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
        // Newer ones say what they have merged.
        if let Some(metadata) = it["metadata"].as_object_mut() {
            metadata.remove("annotations");
        }
    }
    assert_eq!(made, expected);
}

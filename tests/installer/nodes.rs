//! The manifests in `docs/kubernetes` on a node: the programs read their conflists, catalogues and
//! arguments, up to an ADD for a pod.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use harness::{Call, IPAMCTL, PLUGINS, Sandbox, installer_executable, one_inode};
use serde_json::{Value, json};

use crate::keeping::mount;
use crate::manifests::{config_map, daemon_set, documents};

/// The manifest with the catalogue of a second interface.
const STORAGE: &str = "network-attachment-definition.yaml";

/// A node of the manifests, whose folders are in a sandbox.
struct KubernetesNode {
    sandbox: Sandbox,
    name: &'static str,
}

impl KubernetesNode {
    fn new(name: &'static str) -> Self {
        let node = Self {
            sandbox: Sandbox::default(),
            name,
        };
        for folder in [
            "opt/cni/bin",
            "etc/cni/net.d",
            "image/plugins",
            "image/network-plugins",
            "image/sbin",
            "state",
        ] {
            fs::create_dir_all(node.path(folder)).unwrap();
        }
        let build = fs::canonicalize(node.sandbox.plugins().join(PLUGINS[0])).unwrap();
        let one_file = build.parent().unwrap();
        let one_file = match one_file.file_name().unwrap().to_str() {
            Some("one-file") => one_file.to_owned(),
            _ => one_file.join("one-file"),
        };
        for plugin in PLUGINS {
            symlink(
                one_file.join(plugin),
                node.path("image/plugins").join(plugin),
            )
            .unwrap();
        }
        let tool = one_file.parent().unwrap().join(IPAMCTL);
        symlink(tool, node.path("image/sbin").join(IPAMCTL)).unwrap();
        // A node has these plugins before the installation.
        for plugin in ["bridge", "portmap", "macvlan"] {
            let path = node.path("opt/cni/bin").join(plugin);
            harness::write_executable(&path, "#!/bin/sh\n");
        }
        node
    }

    /// A node on which the ConfigMaps of these manifests are mounted.
    fn with(name: &'static str, conflists: &str, storage: Option<&str>) -> Self {
        let node = Self::new(name);
        node.mount("pools", &config_map("pools.yaml"));
        node.mount("conflists", &config_map(conflists));
        node.mount("storage", &storage.map(config_map).unwrap_or_default());
        node
    }

    fn path(&self, name: &str) -> PathBuf {
        self.sandbox.root().join("node").join(name)
    }

    /// A text of the manifests, with the sandbox's folders.
    fn here(&self, text: &str) -> String {
        let mut text = text.replace("$(NODE_NAME)", self.name);
        for folder in ["/opt/cni/", "/etc/cni/", "/config/"] {
            let here = self.path(&folder[1..folder.len() - 1]);
            // Only replaces whole paths.
            for before in ["=", "\""] {
                let to = format!("{before}{}/", here.display());
                text = text.replace(&format!("{before}{folder}"), &to);
            }
        }
        // Folders that no manifest names.
        let folders = json!({
            "dataDir": self.sandbox.data_dir(), "stateDir": self.sandbox.state_dir(),
        });
        let folders = folders.to_string();
        let delegates = "\"delegates\":";
        text.replace(
            delegates,
            &format!("{},{delegates}", &folders[1..folders.len() - 1]),
        )
    }

    /// Mounts a ConfigMap as the kubelet does.
    fn mount(&self, name: &str, data: &BTreeMap<String, String>) {
        let files = data.iter();
        let files = files.map(|(key, text)| (key.as_str(), self.here(text)));
        let folder = self.path("config").join(name);
        mount(&folder, &files.collect::<Vec<_>>());
    }

    /// The entry point with the arguments of the manifest.
    fn installer(&self, more: &[&str]) -> Call {
        let pod = daemon_set("daemonset.yaml").spec.template.spec.unwrap();
        let words = pod.containers[0].args.clone().unwrap();
        let words = words.iter().map(|word| self.here(word));
        Call::new(installer_executable())
            .args(words)
            .args([format!("--from={}", self.path("image").display())])
            .args([format!("--status-file={}", self.path("status").display())])
            .args([format!("--data-dir={}", self.sandbox.data_dir().display())])
            .args([format!(
                "--state-dir={}",
                self.sandbox.state_dir().display()
            )])
            .args(more)
    }

    /// Runs the installation.
    #[track_caller]
    fn install(&self) {
        self.installer(&["--once"]).run().nothing();
    }

    /// The main plugin's configuration, as a runtime passes it.
    fn configuration(&self, conflist: &Path) -> Value {
        let list: Value = serde_json::from_slice(&fs::read(conflist).unwrap()).unwrap();
        let mut plugin = list["plugins"][0].clone();
        plugin["cniVersion"] = list["cniVersion"].clone();
        plugin["name"] = list["name"].clone();
        plugin
    }

    /// The address of a pod.
    fn address(&self, conflist: &Path, namespace: &str, pod: &str) -> String {
        let config = self.configuration(conflist);
        let args = format!("IgnoreUnknown=1;K8S_POD_NAMESPACE={namespace};K8S_POD_NAME={pod}");
        let call = Call::new(self.path("opt/cni/bin/ipam-delegated"))
            .env("CNI_COMMAND", "ADD")
            .env("CNI_CONTAINERID", format!("{namespace}-{pod}"))
            .env("CNI_NETNS", "/run/netns/x")
            .env("CNI_IFNAME", "eth0")
            .env("CNI_ARGS", args)
            .env("CNI_PATH", self.path("opt/cni/bin"))
            .stdin(config.to_string());
        call.run().ips().remove(0)
    }

    fn check(&self, conflist: &Path) {
        let output = Call::new(self.path("opt/cni/sbin").join(IPAMCTL))
            .args(["--conf-dir".into(), self.path("etc/cni/net.d")])
            .args(["--cni-path".into(), self.path("opt/cni/bin")])
            .args(["check", "--no-exec", conflist.to_str().unwrap()])
            .run();
        output.ends(0);
    }
}

#[test]
fn a_node_that_the_catalogue_does_not_name_gets_neither_pools_nor_a_conflist_but_plugins() {
    let node = KubernetesNode::with("worker-9", "conflists.yaml", None);
    let output = node.installer(&["--once"]).run();
    // The rules are for all nodes, but their pools are missing here.
    output.failed(1, ["20-rules.json", "shop"]);
    one_inode(&node.path("opt/cni/bin"));
    assert!(!node.path("etc/cni/ipam.d").exists());
    assert!(!node.path("etc/cni/net.d/10-tenants.conflist").exists());
}

#[test]
fn a_second_interface_has_its_own_catalogue() {
    let node = KubernetesNode::with("worker-2", "conflists.yaml", Some(STORAGE));
    node.install();
    let documents = documents();
    let is_it = |node: &&(String, Value)| node.1["kind"] == "NetworkAttachmentDefinition";
    let (_, definition) = documents.iter().find(is_it).unwrap();
    let config = node.here(definition["spec"]["config"].as_str().unwrap());
    let file = node.path("storage.conflist");
    fs::write(&file, config).unwrap();
    node.check(&file);
    // The sticky key's hash says which one.
    let address = node.address(&file, "shop", "db-0");
    let last: u8 = address
        .strip_prefix("192.168.50.")
        .unwrap()
        .parse()
        .unwrap();
    assert!((150..=199).contains(&last), "{address}");
    assert_eq!(definition["metadata"]["name"], "storage");
}

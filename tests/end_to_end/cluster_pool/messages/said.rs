//! Collects the messages of calls that fail.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use harness::Output;
use serde_json::{Map, Value, json};

use super::super::administered::Administered;

/// A cluster, and the messages so far.
pub(super) struct Said {
    pub(super) cluster: Administered,
    pub(super) all: Map<String, Value>,
    /// Texts that differ in each run, with their replacements.
    hidden: Vec<(String, String)>,
    /// Configuration of `n1`, with the pool `lan`.
    config: Value,
}

impl Said {
    pub(super) fn new() -> Self {
        let two =
            json!({"subnet": "10.40.0.0/24", "rangeStart": "10.40.0.10", "rangeEnd": "10.40.0.11"});
        let cluster = Administered::with_pools(&json!({
            "lan": two,
            "tiny": {"subnet": "10.41.0.0/30"},
            "blocks": {"subnet": "10.42.0.0/24", "block": 28},
            "one-block": {"subnet": "10.43.0.0/28", "block": 28},
        }));
        let mut config = cluster.config("n1", &["ipam-da-kubernetes"], "lan");
        config["ipam"]["kubernetes"]["timeout"] = json!("5s");
        let mut said = Self {
            cluster,
            all: Map::new(),
            hidden: Vec::new(),
            config,
        };
        said.hide(&said.root().display().to_string(), "…");
        said.hide(&said.cluster.api.root().display().to_string(), "…");
        let mut held = said.config("lan");
        held["ipam"]["pools"] = json!([{"name": "lan", "requested-ip": "10.40.0.10"}]);
        said.call("ADD", "held", &held).result();
        said
    }

    /// Replaces a text that differs in each run.
    pub(super) fn hide(&mut self, text: &str, shown: &str) {
        self.hidden.push((text.to_owned(), shown.to_owned()));
    }

    pub(super) fn root(&self) -> PathBuf {
        self.cluster.sandbox.root().to_owned()
    }

    /// A configuration of `n1` with a pool of single addresses.
    pub(super) fn config(&self, pool: &str) -> Value {
        let mut config = self.config.clone();
        config["ipam"]["pools"] = json!([{"name": pool}]);
        config
    }

    /// A configuration of a node with a pool of blocks.
    pub(super) fn config_of_blocks(&self, node: &str, pool: &str) -> Value {
        let delegates = ["ipam-ds-kubernetes", "ipam-da-host-local"];
        self.cluster.config(node, &delegates, pool)
    }

    pub(super) fn call(&self, command: &str, container: &str, config: &Value) -> Output {
        let call = self.cluster.sandbox.call("ipam-delegated", command, config);
        call.container(container).run()
    }

    /// An ADD with this configuration.
    pub(super) fn add(&mut self, what: &str, config: &Value) {
        let output = self.call("ADD", "c", config);
        self.record(what, &output);
    }

    /// An ADD with another kubeconfig.
    pub(super) fn add_with(&mut self, what: &str, kubeconfig: &Path) {
        let mut config = self.config("lan");
        config["ipam"]["kubernetes"]["kubeconfig"] = json!(kubeconfig);
        config["ipam"]["kubernetes"]["timeout"] = json!("1s");
        self.add(what, &config);
    }

    /// An ADD with these variables in the runtime's environment.
    pub(super) fn add_in(&mut self, what: &str, variables: &[(&str, &str)]) {
        let mut config = self.config("lan");
        config["ipam"]["kubernetes"]["timeout"] = json!("1s");
        let sandbox = &self.cluster.sandbox;
        let call = sandbox
            .call("ipam-delegated", "ADD", &config)
            .container("c");
        let call = variables
            .iter()
            .fold(call, |call, (name, value)| call.env(name, value));
        let output = call.run();
        self.record(what, &output);
    }

    pub(super) fn status(&mut self, what: &str, config: &Value) {
        let output = self.call("STATUS", "", config);
        self.record(what, &output);
    }

    /// GC without valid attachments.
    pub(super) fn gc(&mut self, what: &str, config: &Value) {
        let mut config = config.clone();
        config["cni.dev/valid-attachments"] = json!([]);
        let output = self.call("GC", "", &config);
        self.record(what, &output);
    }

    /// An ADD with a changed copy of the node's kubeconfig.
    pub(super) fn changed(&mut self, what: &str, change: impl FnOnce(&mut Value)) {
        let of_node = &self.config["ipam"]["kubernetes"]["kubeconfig"];
        let text = fs::read_to_string(of_node.as_str().unwrap()).unwrap();
        let mut kubeconfig: Value = serde_json::from_str(&text).unwrap();
        change(&mut kubeconfig);
        let path = self.write("changed.kubeconfig", &kubeconfig.to_string());
        self.add_with(what, &path);
    }

    pub(super) fn write(&self, name: &str, kubeconfig: &str) -> PathBuf {
        let path = self.root().join(name);
        fs::write(&path, kubeconfig).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path
    }

    fn record(&mut self, what: &str, output: &Output) {
        let mut error = output.error();
        for key in ["msg", "details"] {
            let Some(text) = error[key].as_str() else {
                continue;
            };
            let mut text = text.to_owned();
            for (hidden, shown) in &self.hidden {
                text = text.replace(hidden, shown);
            }
            assert!(!text.contains("SECRET"), "{what}: {text}");
            error[key] = text.split('\n').map(str::to_owned).collect();
        }
        self.all.insert(what.to_owned(), error);
        // Otherwise the next ADD would undo this one with this configuration.
        let record = self.root().join("n1/state/testnet/c:eth0.json");
        let _ = fs::remove_file(record);
    }
}

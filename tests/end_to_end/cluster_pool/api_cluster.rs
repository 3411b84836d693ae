//! [`PoolCluster`] for an API server.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use harness::{ApiProxy, Flavour, Form, KubernetesApi, Sandbox, Snapshot};
use serde_json::{Value, json};

use crate::cluster::pool_cluster::{PoolCluster, Promise};

/// All resources except pools. A promise may leave objects of them.
const RESOURCES: [&str; 6] = [
    "addresses",
    "blocks",
    "stickykeys",
    "stickyaddresses",
    "restores",
    "ipamnodes",
];

/// A sandbox with an API server, and nodes that share its pools. Each node has a kubeconfig with
/// its own token.
pub(crate) struct ApiCluster {
    pub(crate) sandbox: Sandbox,
    pub(crate) api: KubernetesApi,
    kubeconfigs: Mutex<HashMap<String, PathBuf>>,
    saved: Option<Snapshot>,
    is_stopped: bool,
    /// True if all nodes have an administrator's kubeconfig, because a node's takes a second to
    /// create.
    pub(crate) are_administrators: bool,
}

impl Default for ApiCluster {
    fn default() -> Self {
        let api = KubernetesApi::start().unwrap();
        api.enter();
        api.install();
        Self {
            sandbox: sandbox(),
            api,
            kubeconfigs: Mutex::default(),
            saved: None,
            is_stopped: false,
            are_administrators: false,
        }
    }
}

fn sandbox() -> Sandbox {
    let form = Form::of_this_run();
    Sandbox::in_form(Flavour::Normal, form).with_network_plugins(Flavour::Normal)
}

impl ApiCluster {
    /// Runs these promises, each with an empty API server and an empty sandbox.
    pub(crate) fn keep(&mut self, promises: &[Promise]) {
        let only = std::env::var("IPAM_DELEGATED_PROMISE").unwrap_or_default();
        for (name, promise) in promises.iter().filter(|(name, _)| name.contains(&only)) {
            println!("{name}");
            if self.is_stopped {
                self.start();
            }
            self.sandbox = sandbox();
            self.empty();
            promise(self);
        }
    }

    /// Deletes all objects; addresses and blocks first.
    fn empty(&self) {
        for resource in RESOURCES {
            let path = KubernetesApi::path(resource, "");
            // For up to half a minute after a restore, the API server refuses to delete a mark.
            self.api.wait_for(&format!("DELETE {path}"), || {
                self.api.request("DELETE", &path, &Value::Null).is_success()
            });
        }
        for (pool, _) in self.defined() {
            self.undefine(&pool);
        }
    }

    /// The same configuration, with a kubeconfig whose requests go through the proxy.
    pub(super) fn behind(&self, proxy: &ApiProxy, config: &Value) -> Value {
        let mut config = config.clone();
        let kubeconfig = &mut config["ipam"]["kubernetes"]["kubeconfig"];
        let direct = Path::new(kubeconfig.as_str().unwrap());
        *kubeconfig = json!(proxy.kubeconfig_like(&self.api, direct));
        config
    }

    /// Deletes the object of this name; all objects of the resource if the name is empty.
    pub(crate) fn delete(&self, resource: &str, name: &str) {
        let path = KubernetesApi::path(resource, name);
        self.api.succeed("DELETE", &path, &Value::Null);
    }

    /// The objects of a resource.
    pub(crate) fn objects(&self, resource: &str) -> Vec<Value> {
        self.api.objects(resource)
    }

    /// The specs of a pool's objects.
    fn of_pool(&self, resource: &str, pool: &str) -> Vec<Value> {
        let objects = self.objects(resource).into_iter();
        let mut specs: Vec<Value> = objects.map(|mut object| object["spec"].take()).collect();
        specs.retain(|spec| spec["pool"] == pool);
        specs
    }
}

/// The values of a key, sorted.
fn texts(specs: &[Value], key: &str) -> Vec<String> {
    let texts = specs.iter().filter_map(|spec| spec[key].as_str());
    let mut texts: Vec<String> = texts.map(str::to_owned).collect();
    texts.sort_unstable();
    texts
}

impl PoolCluster for ApiCluster {
    fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    fn engine(&self) -> &'static str {
        "kubernetes"
    }

    fn engine_keys(&self, node: &str) -> Value {
        if self.are_administrators {
            return json!({"kubeconfig": self.api.kubeconfig()});
        }
        let mut known = self.kubeconfigs.lock().unwrap();
        let kubeconfig = known
            .entry(node.to_owned())
            .or_insert_with(|| self.api.kubeconfig_of_node(node));
        json!({"kubeconfig": kubeconfig})
    }

    fn as_administrator(&self, config: &Value) -> Value {
        let mut config = config.clone();
        config["ipam"]["kubernetes"]["kubeconfig"] = json!(self.api.kubeconfig());
        config
    }

    fn define(&self, pool: &str, definition: &Value) {
        let mut object = json!({
            "apiVersion": "ipam-delegated.io/v1",
            "kind": "Pool",
            "metadata": {"name": pool},
            "spec": definition,
        });
        let path = KubernetesApi::path("pools", pool);
        let known = self.api.request("GET", &path, &Value::Null);
        if known.status == 404 {
            return self.api.put("pools", &object);
        }
        object["metadata"] = known.body["metadata"].clone();
        // The policy would refuse a definition that takes something away.
        let path = path + "?fieldManager=ipamctl-import";
        self.api.succeed("PUT", &path, &object);
    }

    fn undefine(&self, pool: &str) {
        // The policy refuses the deletion unless the status says that nothing is held.
        let status = KubernetesApi::path("pools", pool) + "/status";
        let empty = json!({"status": {"reserved": 0}});
        self.api.succeed("PATCH", &status, &empty);
        self.delete("pools", pool);
    }

    fn defined(&self) -> Vec<(String, Value)> {
        let pools = self.objects("pools").into_iter();
        pools
            .map(|mut pool| {
                let name = pool["metadata"]["name"].as_str().unwrap().to_owned();
                (name, pool["spec"].take())
            })
            .collect()
    }

    fn path_of_pool(&self, pool: &str) -> String {
        format!("pools.ipam-delegated.io/{pool}")
    }

    fn reserved(&self, pool: &str) -> Vec<String> {
        texts(&self.of_pool("addresses", pool), "ip")
    }

    fn held(&self) -> Vec<String> {
        let addresses = self.objects("addresses");
        let held = addresses.iter().map(|address| {
            let text = |key: &str| address["spec"][key].as_str().unwrap().to_owned();
            let [node, network, pool, ip] = ["node", "network", "pool", "ip"].map(text);
            let [container, ifname] = ["containerID", "ifname"].map(text);
            format!("{node}/{network}/{container}:{ifname}/{pool}/{ip}")
        });
        let mut held: Vec<String> = held.collect();
        held.sort_unstable();
        held
    }

    fn holder(&self, pool: &str, ip: &str) -> Value {
        let addresses = self.of_pool("addresses", pool);
        let mut found = addresses.into_iter().filter(|spec| spec["ip"] == ip);
        found.next().unwrap()
    }

    fn blocks(&self, pool: &str) -> Vec<String> {
        texts(&self.of_pool("blocks", pool), "cidr")
    }

    fn blocks_of(&self, pool: &str, node: &str) -> Vec<String> {
        let mut blocks = self.of_pool("blocks", pool);
        blocks.retain(|spec| spec["node"] == node);
        texts(&blocks, "cidr")
    }

    fn move_block(&self, pool: &str, block: &str, node: &str) {
        let name = format!("{pool}.{}", block.replace('/', "-"));
        self.delete("blocks", &name);
        let label = |key: &str| format!("ipam-delegated.io/{key}");
        let block = json!({
            "apiVersion": "ipam-delegated.io/v1",
            "kind": "Block",
            "metadata": {"name": name, "labels": {label("pool"): pool, label("node"): node}},
            "spec": {"pool": pool, "cidr": block, "node": node, "since": "2026-01-01T00:00:00Z"},
        });
        self.api.put("blocks", &block);
    }

    fn lose_blocks(&self, pool: &str) {
        let selector = format!("?labelSelector=ipam-delegated.io%2Fpool%3D{pool}");
        let path = KubernetesApi::path("blocks", "") + &selector;
        self.api.succeed("DELETE", &path, &Value::Null);
    }

    fn registration(&self, node: &str) -> String {
        let path = KubernetesApi::path("ipamnodes", node);
        let object = self.api.succeed("GET", &path, &Value::Null);
        object["spec"].to_string()
    }

    fn set_registration(&self, node: &str, registration: &str) {
        let registration: Value = serde_json::from_str(registration).unwrap();
        let object = json!({
            "apiVersion": "ipam-delegated.io/v1",
            "kind": "IPAMNode",
            "metadata": {"name": node},
            "spec": registration,
        });
        self.api.put("ipamnodes", &object);
    }

    fn lose_registrations(&self) {
        self.delete("ipamnodes", "");
    }

    fn marks(&self) -> Vec<String> {
        let restores = self.objects("restores");
        let names = restores.iter().map(|restore| &restore["metadata"]["name"]);
        let mut marks: Vec<String> = names
            .filter_map(|name| name.as_str())
            .filter(|name| *name != "cluster")
            .map(|name| name.trim_start_matches("node.").to_owned())
            .collect();
        // This restore exists while there is any mark.
        assert_eq!(marks.is_empty(), restores.is_empty(), "{restores:?}");
        marks.sort_unstable();
        marks
    }

    fn sticky_keys(&self, pool: &str) -> usize {
        self.of_pool("stickykeys", pool).len()
    }

    fn stop(&mut self) {
        self.api.stop_api_server();
        self.is_stopped = true;
    }

    fn start(&mut self) {
        self.api.start_api_server();
        self.is_stopped = false;
    }

    fn save(&mut self) {
        self.saved = Some(self.api.snapshot());
    }

    fn advance(&self) {
        self.api.advance();
    }

    fn restore(&mut self) {
        self.api.restore(self.saved.as_ref().unwrap());
    }
}

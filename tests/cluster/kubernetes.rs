//! Pools of a cluster in Kubernetes' API: `docs/kubernetes-cluster-pool` on a real API server.

mod collected_owners;
mod facts;
mod lost_answers;
mod objects;
mod refusals;
mod rights;
mod schemas;
mod tools;
mod traffic;
mod whereabouts;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Mutex;

use harness::{ApiProxy, Flavour, KUBECTL, KUBERNETES_PROGRAMS, KubernetesApi, Sandbox, needs};
use serde_json::{Value, json};

use crate::pool_cluster::{PoolCluster, Promise};

/// A sandbox with an API server, and nodes that share its pools. Each node has a kubeconfig with
/// its own token.
pub(crate) struct Cluster {
    sandbox: Sandbox,
    pub(crate) api: KubernetesApi,
    kubeconfigs: Mutex<HashMap<String, PathBuf>>,
    is_stopped: bool,
}

impl Default for Cluster {
    fn default() -> Self {
        let api = KubernetesApi::start().unwrap();
        api.enter();
        api.install();
        Self {
            sandbox: sandbox(),
            api,
            kubeconfigs: Mutex::default(),
            is_stopped: false,
        }
    }
}

fn sandbox() -> Sandbox {
    Sandbox::default().with_network_plugins(Flavour::Normal)
}

impl Cluster {
    /// Verifies each promise with an empty API server and an empty sandbox. (Its start takes ten
    /// seconds.)
    fn keep(&mut self, promises: &[Promise]) {
        for (name, promise) in promises {
            println!("{name}");
            if self.is_stopped {
                self.start();
            }
            self.sandbox = sandbox();
            for resource in KubernetesApi::RESOURCES {
                let path = KubernetesApi::path(resource, "");
                self.api.succeed("DELETE", &path, &Value::Null);
            }
            promise(self);
        }
    }

    fn kubeconfig(&self, node: &str) -> PathBuf {
        let mut known = self.kubeconfigs.lock().unwrap();
        let kubeconfig = known.entry(node.to_owned());
        kubeconfig
            .or_insert_with(|| self.api.kubeconfig_of_node(node))
            .clone()
    }

    /// The same configuration of a node, whose requests go through the proxy.
    fn behind(&self, proxy: &ApiProxy, config: &Value) -> Value {
        let mut config = config.clone();
        let kubeconfig = &mut config["ipam"]["kubernetes"]["kubeconfig"];
        let direct = PathBuf::from(kubeconfig.as_str().unwrap());
        *kubeconfig = json!(proxy.kubeconfig_like(&self.api, &direct));
        config
    }
}

impl PoolCluster for Cluster {
    fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    fn allocator(&self) -> &'static str {
        "ipam-da-kubernetes"
    }

    fn keys(&self, node: &str, timeout: &str) -> Value {
        json!({"kubernetes": {"kubeconfig": self.kubeconfig(node), "timeout": timeout}})
    }

    fn define(&self, pool: &str, definition: &Value) {
        let path = KubernetesApi::path("pools", pool);
        let mut known = self.api.request("GET", &path, &Value::Null);
        if known.status == 404 {
            return self.api.put("pools", &objects::pool(pool, definition));
        }
        known.body["spec"] = definition.clone();
        self.api.succeed("PUT", &path, &known.body);
    }

    fn undefine(&self, pool: &str) {
        let path = KubernetesApi::path("pools", pool);
        self.api.succeed("DELETE", &path, &Value::Null);
    }

    fn addresses(&self) -> Vec<String> {
        let objects = self.api.objects("addresses");
        let line = |object: &Value| {
            let text = |key: &str| object["spec"][key].as_str().unwrap().to_owned();
            if let Some(owner) = object["spec"]["owner"].as_str() {
                return format!("{} {owner}", text("ip"));
            }
            let [ip, node, network] = ["ip", "node", "network"].map(text);
            let [container, ifname] = ["containerID", "ifname"].map(text);
            format!("{ip} {node}/{network}/{container}:{ifname}")
        };
        let mut lines: Vec<String> = objects.iter().map(line).collect();
        lines.sort();
        lines
    }

    fn administrator(&self) -> Vec<String> {
        let file = self.api.kubeconfig();
        vec!["--kubeconfig".to_owned(), file.display().to_string()]
    }

    fn lose(&self, ip: &str) {
        let path = KubernetesApi::path("addresses", ip);
        self.api.succeed("DELETE", &path, &Value::Null);
    }

    fn stop(&mut self) {
        self.api.control_plane.stop_api_server();
        self.is_stopped = true;
    }

    fn start(&mut self) {
        self.api.control_plane.start_api_server();
        self.is_stopped = false;
    }
}

#[test]
fn promises() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let mut cluster = Cluster::default();
    cluster.keep(crate::promises::PROMISES);
    cluster.keep(crate::selection::PROMISES);
    cluster.keep(crate::owners::PROMISES);
    cluster.keep(crate::tools::PROMISES);
}

#[test]
fn on_a_wire() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL, "/usr/bin/python3");
    Cluster::default().keep(crate::on_a_wire::PROMISES);
}

#[test]
fn killed() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL, "trace");
    Cluster::default().keep(crate::killed::PROMISES);
}

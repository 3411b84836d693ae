//! The measured API server: on this machine, with its etcd in memory.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Result, anyhow, ensure};
use cni::{Object, Plugin};
use harness::{KUBECTL, KUBERNETES_PROGRAMS, KubernetesApi, Namespace, missing};
use kubernetes::{Client, Created, Resource, Settings};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::counters::{COSTS, counters};
use super::filling::fill;
use crate::cluster::target::{Target, Words};
use crate::folders;

/// A time limit that no call reaches, even on a slow machine.
const TIMEOUT: &str = "20m";

/// The node that makes the bare creations.
const WRITER: &str = "bench-node-1";

const WORDS: Words = Words {
    command: "kubernetes",
    engine: "Kubernetes' API",
    write: "creation",
    stopped: "the API server",
    allocator: "ipam-da-kubernetes",
    selector: "ipam-ds-kubernetes",
    bounds: [2.0, 2.0],
    costs: &COSTS,
};

/// The API server.
pub(crate) struct Kubernetes {
    pub(super) api: KubernetesApi,
    clients: Namespace,
    /// Files of the plugins, in a folder for each node.
    folder: TempDir,
    /// The kubeconfig of each node, created once.
    kubeconfigs: Mutex<BTreeMap<String, PathBuf>>,
    /// Settings of the node that makes the bare creations.
    writer: Settings,
    /// Number of bare creations.
    written: AtomicU32,
}

impl Kubernetes {
    pub(crate) fn new() -> Result<Self> {
        for what in ["root", KUBERNETES_PROGRAMS, KUBECTL] {
            if let Some(reason) = missing(what) {
                ensure!(false, "no API server can be started: {reason}");
            }
        }
        println!("Starting the API server …");
        let api = KubernetesApi::start().map_err(|reason| anyhow!(reason))?;
        api.install();
        let mut target = Self {
            clients: api.namespace(),
            folder: folders::folder_in(&folders::in_memory())?,
            kubeconfigs: Mutex::default(),
            writer: settings(&json!({"kubernetes": {"kubeconfig": "/nowhere"}}))?,
            written: AtomicU32::new(0),
            api,
        };
        target.writer = settings(&target.ipam(WRITER)?)?;
        Ok(target)
    }

    /// A client of a node, without a connection.
    pub(super) fn client(&self) -> Client<'_> {
        Client::new(&self.writer, None)
    }

    fn kubeconfig(&self, node: &str) -> PathBuf {
        let mut known = self.kubeconfigs.lock().expect("no caller panics");
        let make = || self.api.kubeconfig_of_node(node);
        known.entry(node.to_owned()).or_insert_with(make).clone()
    }

    /// A new address in an unused pool, as large as those that ADDs create.
    fn bare_address(&self, container: &str) -> Value {
        let number = self.written.fetch_add(1, Ordering::Relaxed);
        let ip = Ipv4Addr::from(0x0a60_0000 + number);
        let label = |name: &str| format!("ipam-delegated.io/{name}");
        json!({
            "apiVersion": "ipam-delegated.io/v1",
            "kind": "Address",
            "metadata": {
                "name": format!("bare.{ip}"),
                "labels": {
                    label("pool"): "bare",
                    label("prefix"): format!("{}-24", Ipv4Addr::from((0x0a60_0000 + number) & !0xff)),
                    label("node"): WRITER,
                    label("network"): "bench",
                },
            },
            "spec": {
                "pool": "bare", "ip": ip.to_string(), "node": WRITER, "network": "bench",
                "containerID": container, "ifname": "eth0",
                "since": "2020-01-01T00:00:00Z", "call": "0123456789abcdef",
            },
        })
    }
}

fn settings(ipam: &Value) -> Result<Settings> {
    let ipam: Object = serde_json::from_value(ipam.clone())?;
    Settings::read(&ipam).map_err(|error| anyhow!("{error}"))
}

impl Target for Kubernetes {
    fn words(&self) -> &'static Words {
        &WORDS
    }

    fn whose(&self) -> String {
        "an API server 1.36 and one etcd on one machine, TLS, tokens, RBAC, data in memory"
            .to_owned()
    }

    fn allocator(&self) -> &dyn Plugin {
        &ipam_da_kubernetes::PLUGIN
    }

    fn nodes(&self) -> usize {
        2
    }

    fn ipam(&self, node: &str) -> Result<Value> {
        let folder = self.folder.path().join(node);
        Ok(json!({
            "kubernetes": {
                "kubeconfig": self.kubeconfig(node),
                "timeout": TIMEOUT,
                "cacheDir": folder.join("cache"),
                "stateDir": folder.join("state"),
            },
            "node": node,
        }))
    }

    fn enter(&self) {
        self.clients.enter();
    }

    fn write_bare(&self, name: &str) -> Result<()> {
        let object = self.bare_address(name);
        let created = self.client().create(Resource::Address, &object, false);
        let created = created.map_err(|error| anyhow!("{error}"))?;
        ensure!(matches!(created, Created::Done(_)), "{object} exists");
        Ok(())
    }

    fn write_pool(&self, pool: &str, definition: &Value) -> Result<()> {
        self.api.apply(&json!({
            "apiVersion": "ipam-delegated.io/v1",
            "kind": "Pool",
            "metadata": {"name": pool},
            "spec": definition,
        }));
        Ok(())
    }

    fn fill(&self, pool: &str, net: u8, count: u32) -> Result<()> {
        fill(self, pool, net, count)
    }

    fn counters(&self) -> Option<Vec<f64>> {
        let reached: &dyn Target = self;
        reached.inside(|| counters(&self.api)).ok()
    }

    fn stop(&self) -> bool {
        self.api.pause_api_server();
        true
    }

    fn go_on(&self) {
        self.api.continue_api_server();
    }
}

//! A pool in Kubernetes' API.

use std::env;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, anyhow, ensure};
use cluster::{AddressKey, Claim};
use harness::{KUBECTL, KUBERNETES_PROGRAMS, KubernetesApi, Namespace, sum_of_metric};
use kubernetes::ENGINE;
use serde_json::{Value, json};
use tempfile::TempDir;
use xtask::build::Flavour;

use crate::crowd::inside;
use crate::engine::{self, Engine};
use crate::folders::{folder_in, in_memory};
use crate::plugin::{Plugin, succeeds};
use crate::table::Table;

/// What an API server needs.
pub(crate) const NEEDS: [&str; 3] = ["root", KUBERNETES_PROGRAMS, KUBECTL];

/// The allocator's executable.
const ALLOCATOR: &str = "ipam-da-kubernetes";

/// The kinds of whereabouts, as its releases define them.
const KINDS: &str = include_str!("whereabouts-kinds.json");

/// The node, the pool and the address of the first bare creation.
const BARE_NODE: &str = "node-of-bare-creations";
const BARE_POOL: &str = "pool-of-bare-creations";
const FIRST: Ipv4Addr = Ipv4Addr::new(10, 111, 255, 255);

/// An API server with one etcd on this machine, in memory.
struct Server {
    api: KubernetesApi,
    allocator: PathBuf,
    whereabouts: Option<Plugin>,
    /// The object of the first bare creation.
    template: String,
    folder: TempDir,
}

pub(crate) fn measure() -> Result<Table> {
    let built = Flavour::Normal.build_static(&["kubernetes"])?;
    let api = KubernetesApi::start().map_err(|reason| anyhow!(reason))?;
    api.install();
    api.apply(&serde_json::from_str(KINDS)?);
    api.kubectl(&["wait", "--for=condition=Established", "crd", "--all"]);
    let folder = folder_in(&in_memory())?;
    let etcd = json!({"endpoints": [KubernetesApi::ETCD], "timeout": "10m"});
    fs::write(folder.path().join(ETCD_SETTINGS), etcd.to_string())?;
    let whereabouts = json!({
        "datastore": "kubernetes", "kubernetes": {"kubeconfig": api.kubeconfig()},
    });
    api.kubeconfig_of_node(BARE_NODE);
    let mut server = Server {
        api,
        allocator: built.join(ALLOCATOR),
        whereabouts: engine::whereabouts(folder.path(), whereabouts)?,
        template: String::new(),
        folder,
    };
    inside(&server.clients(), || succeeds(&mut server.bare(FIRST)))?;
    server.template = server.api.objects("addresses")[0].to_string();
    engine::measure(&server)
}

/// The file with the settings for the API server's etcd.
const ETCD_SETTINGS: &str = "etcd-settings.json";

impl Engine for Server {
    fn names(&self) -> [&'static str; 2] {
        [ALLOCATOR, "bare creations"]
    }

    fn clients(&self) -> Namespace {
        self.api.namespace()
    }

    fn define(&self, pool: &str, definition: &Value, node: &str) -> Result<Plugin> {
        let object = json!({
            "apiVersion": "ipam-delegated.io/v1", "kind": "Pool", "metadata": {"name": pool},
            "spec": definition,
        });
        self.api.put("pools", &object);
        let kubeconfig = self.api.kubeconfig_of_node(node);
        let ipam = json!({
            "type": ALLOCATOR, "node": node,
            "kubernetes": {"kubeconfig": kubeconfig, "timeout": "10m"},
        });
        engine::plugin(&self.allocator, self.folder.path(), pool, &ipam)
    }

    fn bare(&self, ip: Ipv4Addr) -> Command {
        let kubeconfig = format!("node-{BARE_NODE}.kubeconfig");
        let mut create = Command::new(env::current_exe().expect("this program"));
        create
            .arg("--bare-creation")
            .arg(self.api.root().join(kubeconfig))
            .arg(ip.to_string());
        create
    }

    fn whereabouts(&self) -> Option<&Plugin> {
        self.whereabouts.as_ref()
    }

    fn etcd(&self) -> PathBuf {
        self.folder.path().join(ETCD_SETTINGS)
    }

    /// As the API server stores an object.
    fn stored(&self, pool: &str, ip: Ipv4Addr) -> Vec<(String, String)> {
        let object = self
            .template
            .replace(&FIRST.to_string(), &ip.to_string())
            .replace(BARE_NODE, &format!("node-{}", ip.octets()[3]))
            .replace(BARE_POOL, pool);
        vec![(
            format!("/registry/ipam-delegated.io/addresses/{ip}"),
            object,
        )]
    }

    fn processor_time(&self) -> Option<f64> {
        let metrics = self.api.succeed("GET", "/metrics", &Value::Null);
        let seconds = sum_of_metric(metrics.as_str()?, "process_cpu_seconds_total", &[]);
        Some(seconds * 1e3)
    }
}

/// Creates the object of an address over a new connection.
pub(crate) fn create(kubeconfig: &Path, ip: Ipv4Addr) -> Result<()> {
    let ipam = json!({"kubernetes": {"kubeconfig": kubeconfig, "timeout": "10m"}});
    let key = AddressKey {
        space: None,
        ip: ip.into(),
    };
    let holder = serde_json::from_value(engine::holder(BARE_NODE, BARE_POOL, &ip.to_string()))?;
    let mut store = ENGINE.open(&serde_json::from_value(ipam)?, None)?;
    ensure!(
        store.claim(&key, &holder, 0)? != Claim::Taken,
        "{ip} exists"
    );
    Ok(())
}

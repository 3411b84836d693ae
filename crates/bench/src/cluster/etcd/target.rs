//! The measured cluster: three members on this machine, or an existing cluster.

use std::process;

use anyhow::{Context, Result, anyhow, ensure};
use cni::{Object, Plugin};
use etcd::{Client, Op, Settings};
use harness::{ETCD, ETCDCTL, MEMBERS, Namespace, missing};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::counters::{COSTS, counters};
use super::filling::{OPERATIONS, execute, fill};
use crate::cluster::target::{Target, Words};
use crate::folders;

/// A time limit that no call reaches, even on a slow machine.
const TIMEOUT: &str = "120s";

const WORDS: Words = Words {
    command: "cluster",
    engine: "a cluster's etcd",
    write: "put",
    stopped: "every member",
    allocator: "ipam-da-etcd",
    selector: "ipam-ds-etcd",
    bounds: [4.0, 3.0],
    costs: &COSTS,
};

/// A text about as long as the value of an address.
const VALUE: &str = "{\"node\":\"bench-node\",\"network\":\"bench\",\"containerID\":\
                     \"c000000000000000\",\"ifname\":\"eth0\",\"since\":\"2020-01-01T00:00:00Z\"}";

/// A cluster of etcd.
pub(crate) struct Etcd {
    /// `None` for an existing cluster.
    own: Option<Own>,
    /// The key `etcd` of a plugin's configuration.
    etcd: Value,
    settings: Settings,
    /// Files of the plugins, in a folder for each node.
    folder: TempDir,
}

/// A cluster on this machine.
struct Own {
    cluster: harness::Cluster,
    clients: Namespace,
}

impl Etcd {
    pub(crate) fn new(arguments: &super::Cluster) -> Result<Self> {
        let (own, mut etcd) = if arguments.endpoints.is_empty() {
            let own = Own::start()?;
            let etcd = own.cluster.config();
            (Some(own), etcd)
        } else {
            (None, somebodys(arguments))
        };
        etcd["timeout"] = json!(TIMEOUT);
        // The folder's name is unique.
        let folder = format!("bench-{}-{:016x}", process::id(), fastrand::u64(..));
        let prefix = match own {
            Some(_) => harness::PREFIX,
            None => arguments.prefix.trim_end_matches('/'),
        };
        etcd["prefix"] = json!(format!("{prefix}/{folder}"));
        let ipam: Object = serde_json::from_value(json!({ "etcd": etcd }))?;
        let target = Self {
            own,
            settings: Settings::read(&ipam).map_err(|error| anyhow!("{error}"))?,
            etcd,
            folder: folders::folder_in(&folders::in_memory())?,
        };
        // Fails early if the password is wrong.
        let reached: &dyn Target = &target;
        reached.inside(|| {
            let probe = format!("{}/probe", target.prefix());
            target.put(probe, "")
        })?;
        Ok(target)
    }

    /// The prefix of all keys.
    pub(crate) fn prefix(&self) -> &str {
        &self.settings.prefix
    }

    /// A client without a connection.
    pub(crate) fn client(&self) -> Client<'_> {
        Client::new(&self.settings, None)
    }

    fn put(&self, key: String, value: &str) -> Result<()> {
        execute(&mut self.client(), vec![Op::put(key, value)])
    }

    /// The members, whose counters may be read and which may be stopped; `None` for an existing
    /// cluster.
    pub(super) fn own(&self) -> Option<&harness::Cluster> {
        self.own.as_ref().map(|own| &own.cluster)
    }

    /// Removes all keys below the prefix.
    pub(crate) fn remove_keys(&self) -> Result<()> {
        let below = format!("{}/", self.prefix());
        let reached: &dyn Target = self;
        reached
            .inside(|| {
                let mut client = self.client();
                let all = client
                    .all(&below, 10_000, true)
                    .map_err(|error| anyhow!("{error}"))?;
                for kvs in all.chunks(OPERATIONS) {
                    // A client has one time limit for all of its requests.
                    let then = kvs.iter().map(|kv| Op::delete(kv.key.clone())).collect();
                    execute(&mut self.client(), then)?;
                }
                anyhow::Ok(())
            })
            .with_context(|| format!("keys are left: etcdctl del --prefix {below}"))?;
        Ok(())
    }
}

impl Target for Etcd {
    fn words(&self) -> &'static Words {
        &WORDS
    }

    fn whose(&self) -> String {
        match self.own {
            Some(_) => "three members on one machine, TLS and a user, data in memory".to_owned(),
            None => format!("{} endpoints", self.settings.endpoints.len()),
        }
    }

    fn allocator(&self) -> &dyn Plugin {
        &ipam_da_etcd::PLUGIN
    }

    fn nodes(&self) -> usize {
        1
    }

    fn ipam(&self, node: &str) -> Result<Value> {
        let folder = self.folder.path().join(node);
        let mut etcd = self.etcd.clone();
        etcd["cacheDir"] = json!(folder.join("cache"));
        etcd["stateDir"] = json!(folder.join("state"));
        Ok(json!({"etcd": etcd, "node": node}))
    }

    fn enter(&self) {
        if let Some(own) = &self.own {
            own.clients.enter();
        }
    }

    fn write_bare(&self, name: &str) -> Result<()> {
        let key = format!("{}/puts/{name}", self.prefix());
        self.put(key, VALUE)
    }

    fn write_pool(&self, pool: &str, definition: &Value) -> Result<()> {
        let key = format!("{}/v1/pools/{pool}", self.prefix());
        let reached: &dyn Target = self;
        reached.inside(|| self.put(key, &definition.to_string()))
    }

    fn fill(&self, pool: &str, net: u8, count: u32) -> Result<()> {
        fill(self, pool, net, count)
    }

    fn counters(&self) -> Option<Vec<f64>> {
        self.own().map(counters)
    }

    fn stop(&self) -> bool {
        if let Some(cluster) = self.own() {
            (0..MEMBERS).for_each(|member| cluster.stop_member(member));
        }
        self.own.is_some()
    }

    fn go_on(&self) {
        if let Some(cluster) = self.own() {
            (0..MEMBERS).for_each(|member| cluster.continue_member(member));
            cluster.wait_until_healthy();
        }
    }
}

impl Own {
    fn start() -> Result<Self> {
        for what in ["root", ETCD, ETCDCTL] {
            if let Some(reason) = missing(what) {
                ensure!(
                    false,
                    "no cluster can be started: {reason}; install Debian's etcd-server and \
                     etcd-client and run target as root, or name a cluster with --endpoints"
                );
            }
        }
        println!("Starting three members …");
        let cluster = harness::Cluster::with_disks("4g").map_err(|reason| anyhow!(reason))?;
        let clients = cluster.clients();
        Ok(Self { cluster, clients })
    }
}

/// The key `etcd` for an existing cluster.
fn somebodys(arguments: &super::Cluster) -> Value {
    let mut etcd = json!({ "endpoints": arguments.endpoints });
    let text = |path: &Option<std::path::PathBuf>| path.as_ref().map(|path| json!(absolute(path)));
    let keys = [
        ("ca", text(&arguments.ca)),
        ("cert", text(&arguments.cert)),
        ("key", text(&arguments.key)),
        ("username", arguments.user.as_ref().map(|user| json!(user))),
        ("passwordFile", text(&arguments.password_file)),
    ];
    for (key, value) in keys {
        if let Some(value) = value {
            etcd[key] = value;
        }
    }
    etcd
}

fn absolute(path: &std::path::Path) -> std::path::PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

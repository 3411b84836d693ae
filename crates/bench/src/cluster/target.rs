//! The cluster that is measured: three members of this machine, or somebody's.

use std::process;
use std::thread;

use anyhow::{Context, Result, anyhow, ensure};
use cni::Object;
use etcd::{Client, Settings};
use harness::{ETCD, ETCDCTL, Metrics, Namespace, missing};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A bound of time that no call reaches, however slow the machine is.
const TIMEOUT: &str = "120s";

/// The cluster.
pub(crate) struct Target {
    /// `None` if it is somebody's.
    own: Option<Own>,
    /// The key `etcd` of a plugin's configuration.
    etcd: Value,
    settings: Settings,
    /// What the plugins keep.
    _folder: TempDir,
}

/// A cluster of this machine.
struct Own {
    cluster: harness::Cluster,
    clients: Namespace,
}

impl Target {
    pub(crate) fn new(arguments: &super::Cluster) -> Result<Self> {
        let (own, mut etcd) = if arguments.endpoints.is_empty() {
            let own = Own::start()?;
            let etcd = own.cluster.config();
            (Some(own), etcd)
        } else {
            (None, somebodys(arguments))
        };
        let kept = tempfile::tempdir()?;
        etcd["cacheDir"] = json!(kept.path().join("cache"));
        etcd["stateDir"] = json!(kept.path().join("state"));
        etcd["timeout"] = json!(TIMEOUT);
        // Nobody else has a folder of this name.
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
            _folder: kept,
        };
        // A wrong password is better known before anything is measured.
        target.inside(|| {
            let probe = format!("{}/probe", target.prefix());
            let mut client = target.client();
            client.put(probe, "").map_err(|error| anyhow!("{error}"))
        })?;
        Ok(target)
    }

    /// The words for it in the figures.
    pub(crate) fn whose(&self) -> String {
        match self.own {
            Some(_) => "three members on one machine, TLS and a user, data in memory".to_owned(),
            None => format!("{} endpoints", self.settings.endpoints.len()),
        }
    }

    /// The prefix of all keys.
    pub(crate) fn prefix(&self) -> &str {
        &self.settings.prefix
    }

    /// The key `etcd` of a plugin's configuration.
    pub(crate) fn etcd(&self) -> Value {
        self.etcd.clone()
    }

    /// A client, which has no connection yet.
    pub(crate) fn client(&self) -> Client<'_> {
        Client::new(&self.settings, None)
    }

    /// Moves the calling thread to where the cluster can be reached.
    pub(crate) fn enter(&self) {
        if let Some(own) = &self.own {
            own.clients.enter();
        }
    }

    /// Does something where the cluster can be reached.
    pub(crate) fn inside<T: Send>(&self, what: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let entered = scope.spawn(|| {
                self.enter();
                what()
            });
            entered.join().expect("a measurement doesn't panic")
        })
    }

    /// The members' counters; `None` if it is somebody's.
    pub(crate) fn metrics(&self) -> Option<Vec<Metrics>> {
        self.own.as_ref().map(|own| own.cluster.metrics())
    }

    /// The cluster, if it may be broken.
    pub(crate) fn own(&self) -> Option<&harness::Cluster> {
        self.own.as_ref().map(|own| &own.cluster)
    }

    /// Writes a pool with this configuration.
    pub(crate) fn write_pool(&self, pool: &str, value: &Value) -> Result<()> {
        let key = format!("{}/v1/pools/{pool}", self.prefix());
        self.inside(|| {
            let mut client = self.client();
            let written = client.put(key, value.to_string());
            written.map_err(|error| anyhow!("{error}"))
        })
    }

    /// Removes all keys below the prefix.
    pub(crate) fn remove_keys(&self) -> Result<()> {
        let below = format!("{}/", self.prefix());
        self.inside(|| {
            let removed = self.client().delete_prefix(below.as_str());
            removed.map_err(|error| anyhow!("{error}"))
        })
        .with_context(|| format!("keys are left: etcdctl del --prefix {below}"))?;
        Ok(())
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

/// The key `etcd` for somebody's cluster.
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

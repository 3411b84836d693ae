//! A pool in etcd.

use std::env;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, anyhow};
use cluster::{AddressKey, until_answered};
use etcd::{EtcdStore, Keys, Settings};
use harness::{Cluster, ETCD, ETCDCTL, Namespace, PREFIX};
use serde_json::{Value, json};
use tempfile::TempDir;
use xtask::build::Flavour;

use crate::engine::{self, Engine};
use crate::folders::{folder_in, in_memory};
use crate::plugin::Plugin;
use crate::table::Table;

/// What a cluster needs.
pub(crate) const NEEDS: [&str; 3] = ["root", ETCD, ETCDCTL];

/// The allocator's executable.
const ALLOCATOR: &str = "ipam-da-etcd";

/// Three members on this machine, with TLS, in memory.
struct Members {
    cluster: Cluster,
    allocator: PathBuf,
    whereabouts: Option<Plugin>,
    folder: TempDir,
}

pub(crate) fn measure() -> Result<Table> {
    let built = Flavour::Normal.build_static(&["etcd"])?;
    let cluster = Cluster::with_disks("4g").map_err(|reason| anyhow!(reason))?;
    let folder = folder_in(&in_memory())?;
    let mut settings = cluster.config();
    settings["timeout"] = json!("10m");
    fs::write(folder.path().join(SETTINGS), settings.to_string())?;
    let whereabouts = json!({
        "datastore": "etcd", "etcd_host": settings["endpoints"][0],
        "etcd_ca_cert_file": settings["ca"], "etcd_cert_file": settings["cert"],
        "etcd_key_file": settings["key"],
    });
    settings["endpoints"] = json!([settings["endpoints"][0]]);
    fs::write(folder.path().join(ONE_MEMBER), settings.to_string())?;
    engine::measure(&Members {
        allocator: built.join(ALLOCATOR),
        whereabouts: engine::whereabouts(folder.path(), whereabouts)?,
        cluster,
        folder,
    })
}

/// The settings' file of our allocator, and that of bare puts.
const SETTINGS: &str = "etcd-settings.json";
const ONE_MEMBER: &str = "one-member.json";

impl Engine for Members {
    fn names(&self) -> [&'static str; 2] {
        [ALLOCATOR, "bare puts"]
    }

    fn clients(&self) -> Namespace {
        self.cluster.clients()
    }

    fn define(&self, pool: &str, definition: &Value, node: &str) -> Result<Plugin> {
        let key = Keys::new(PREFIX).pool(pool);
        self.cluster
            .etcdctl(&["put", &key, &definition.to_string()]);
        let settings = self.folder.path().join(SETTINGS);
        let ipam = json!({"type": ALLOCATOR, "etcd": settings, "node": node});
        engine::plugin(&self.allocator, self.folder.path(), pool, &ipam)
    }

    fn bare(&self, ip: Ipv4Addr) -> Command {
        let mut put = Command::new(env::current_exe().expect("this program"));
        put.arg("--bare-put")
            .arg(self.folder.path().join(ONE_MEMBER))
            .arg(format!("/bare/{ip}"));
        put
    }

    fn whereabouts(&self) -> Option<&Plugin> {
        self.whereabouts.as_ref()
    }

    fn etcd(&self) -> PathBuf {
        self.folder.path().join(SETTINGS)
    }

    fn stored(&self, pool: &str, ip: Ipv4Addr) -> Vec<(String, String)> {
        let node = format!("node-{}", ip.octets()[3]);
        let key = AddressKey {
            space: None,
            ip: ip.into(),
        };
        let keys = Keys::new(PREFIX);
        vec![
            (keys.address(&key), value(&node, pool, &ip.to_string())),
            (keys.of_node(&node, &key), String::new()),
        ]
    }

    fn processor_time(&self) -> Option<f64> {
        None
    }
}

/// The value of an address.
fn value(node: &str, pool: &str, container: &str) -> String {
    let mut holder = engine::holder(node, pool, container);
    holder["machine"] = json!("00000000000000000000000000000000");
    holder.to_string()
}

/// Puts a value like an address's over a new connection. As an ADD does, it repeats what etcd hasn't
/// done in its own time, seven seconds: 1,000 callers at once can keep it busy for that long.
pub(crate) fn put(settings: &Path, key: &str) -> Result<()> {
    let value = serde_json::from_str(&value("node-of-puts", "bare", key))?;
    let mut store = EtcdStore::new(Settings::read(settings)?, None);
    Ok(until_answered(&mut store, |store| {
        store.define(key, &value)
    })?)
}

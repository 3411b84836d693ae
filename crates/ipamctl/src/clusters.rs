//! The clusters that this node's networks lead to, and how a command reaches them.
//!
//! A [`Cluster`] is found by the conflists' allocators ([`engine_of`]), by the kubeconfig that the installer
//! has written, or by a person's `--kubeconfig`. [`Cluster::open`] gives its store: with the node's rights,
//! or with the person's, which see all nodes. Rows of its addresses are made in `inventory/cluster_rows`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use cluster::{Engine, Held, Inventory, Node, Store as _, StoreError, until_answered};
use cni::{NetworkName, Object};
use conflist::Problem;
use kubernetes::{Kubernetes, OwnedState};
use serde_json::json;

use crate::Context;
use crate::local_node::LocalNode;
use crate::network::{Network, engine_of};
use crate::output::warn;
use crate::pools::pool_names;

/// The kubeconfig that the manifests let the installer write into the folder of conflists. With Multus,
/// networks are in Kubernetes' API, and nothing else on a node leads to its cluster.
const INSTALLED_KUBECONFIG: &str = "ipam-delegated.kubeconfig";

/// The section with this kubeconfig.
pub(crate) fn with_kubeconfig(mut ipam: Object, file: &Path) -> Object {
    ipam.set("kubernetes", &json!({"kubeconfig": file}));
    ipam
}

/// A cluster, and the networks of this node that use its pools.
#[derive(Debug)]
pub(crate) struct Cluster {
    engine: &'static dyn Engine,
    /// The file that says how the engine is reached.
    file: PathBuf,
    /// The `ipam` section that leads to it; `None` for the kubeconfig of a person.
    ipam: Option<Object>,
    /// This machine as a node of it.
    pub(crate) node: Option<Node>,
    /// The networks, each with the names of the pools that it may use; `None` if that isn't known.
    networks: Vec<(NetworkName, Option<Vec<String>>)>,
}

impl Cluster {
    /// The clusters of these networks, each once, and that of the installed kubeconfig. What can't be
    /// used is a problem of the file.
    pub(crate) fn of_networks<'a>(
        networks: impl IntoIterator<Item = &'a Network>,
        node: &LocalNode,
        problems: &mut Vec<Problem>,
    ) -> Vec<Arc<Self>> {
        let configured = networks.into_iter().filter_map(|network| {
            let (_, engine) = engine_of(&network.delegates)?;
            let names = pool_names(network, &node.environment);
            let users = vec![(network.name.clone(), names)];
            Some((network.file.clone(), engine, network.ipam(), users))
        });
        let installed = node.sources.conf_dir.iter().filter_map(|folder| {
            let file = folder.join(INSTALLED_KUBECONFIG);
            let ipam = with_kubeconfig(Object::new(), &file);
            let is_there = file.exists();
            is_there.then_some((file, kubernetes::ENGINE, ipam, Vec::new()))
        });
        let mut found: Vec<Self> = Vec::new();
        for (file, engine, ipam, users) in configured.chain(installed) {
            match Self::read(engine, ipam) {
                Ok(new) => match found.iter_mut().find(|known| known.is_same(&new)) {
                    Some(known) => known.networks.extend(users),
                    None => found.push(Self {
                        networks: users,
                        ..new
                    }),
                },
                Err(error) => problems.push(Problem::new(&file, error.msg)),
            }
        }
        found.into_iter().map(Arc::new).collect()
    }

    /// The cluster in Kubernetes' API of a person's kubeconfig.
    pub(crate) fn from_kubeconfig(file: &Path) -> Arc<Self> {
        Arc::new(Self {
            engine: kubernetes::ENGINE,
            file: file.to_owned(),
            ipam: None,
            node: None,
            networks: Vec::new(),
        })
    }

    /// The one cluster of the command line: that of the kubeconfig, else that of the conflists.
    ///
    /// # Errors
    ///
    /// There is none, or several.
    pub(crate) fn one(context: &Context<'_>) -> Result<Arc<Self>> {
        if let Some(file) = &context.sources.kubeconfig {
            return Ok(Self::from_kubeconfig(file));
        }
        let mut problems = Vec::new();
        let node = context.node();
        let clusters = Self::of_networks(&node.networks, &node, &mut problems);
        if let Some(problem) = problems.first() {
            bail!("{problem}");
        }
        let number = clusters.len();
        match &clusters[..] {
            [one] => Ok(Arc::clone(one)),
            _ => bail!("the conflists lead to {number} clusters: see --conf-dir and --kubeconfig"),
        }
    }

    /// The cluster of a configuration with the allocator of this engine.
    ///
    /// # Errors
    ///
    /// Code 7, naming the key and the value, or the file.
    pub(crate) fn read(engine: &'static dyn Engine, ipam: Object) -> Result<Self, cni::Error> {
        Ok(Self {
            engine,
            file: engine.file(&ipam)?,
            node: Some(engine.node(&ipam)?),
            ipam: Some(ipam),
            networks: Vec::new(),
        })
    }

    /// The networks of this node that may use a pool.
    pub(crate) fn networks_of(&self, pool: &str) -> Vec<NetworkName> {
        let is_among = |pools: &Vec<String>| pools.iter().any(|name| name == pool);
        let networks = self.networks.iter();
        let users = networks.filter(|(_, pools)| pools.as_ref().is_none_or(is_among));
        users.map(|(network, _)| network.clone()).collect()
    }

    /// True if another node, or another machine of this node's name, holds the address.
    pub(crate) fn is_held_elsewhere(&self, held: &Held) -> bool {
        let both = self.node.as_ref().zip(held.holder.as_ref());
        both.is_some_and(|(node, holder)| holder.owner.is_none() && !holder.is_on(node))
    }

    /// True for the same engine by the same file, and the same node.
    fn is_same(&self, other: &Self) -> bool {
        let identity = |of: &Self| (of.engine.name(), of.file.clone(), of.node.clone());
        identity(self) == identity(other)
    }

    /// The store for the requests of one command, each of which may take the whole `timeout`.
    ///
    /// # Errors
    ///
    /// Wrong settings, naming the key and the value, or the file.
    pub(crate) fn open(&self) -> Result<Box<dyn Inventory + '_>> {
        let Some(ipam) = &self.ipam else {
            return Ok(Box::new(open_kubeconfig(Some(&self.file))?));
        };
        let store = self.engine.open(ipam, None);
        let store = store.map_err(|error| anyhow!(error.msg))?;
        store.time().limit_each_request();
        Ok(store)
    }

    /// The store on etcd, where a tool defines the pools.
    ///
    /// # Errors
    ///
    /// The engine is another one; as [`Self::open`].
    pub(crate) fn open_etcd(&self) -> Result<etcd::EtcdStore<'_>> {
        let is_etcd = self.engine.name() == etcd::ENGINE.name();
        ensure!(is_etcd, "in Kubernetes, pools are objects: kubectl apply");
        let settings = etcd::Settings::read(&self.file).map_err(|error| anyhow!(error.msg))?;
        Ok(etcd::EtcdStore::new(settings, None))
    }

    /// Path of the addresses of a space, in place of a directory.
    pub(crate) fn place(&self, space: Option<&NetworkName>) -> String {
        let space = space.map_or_else(String::new, |space| format!("/{space}"));
        format!("{}:addresses{space}", self.engine.name())
    }
}

/// The wanted addresses of a cluster.
///
/// # Errors
///
/// Those of the store.
pub(crate) fn addresses(
    store: &mut dyn Inventory,
    is_wanted: impl Fn(&Held) -> bool,
) -> Result<Vec<Held>, StoreError> {
    until_answered(store, |store| {
        let mut wanted = Vec::new();
        store.addresses(&mut |held| wanted.extend(Some(held).filter(&is_wanted)))?;
        Ok(wanted)
    })
}

/// The store in Kubernetes' API by `--kubeconfig`, for what a node has no right to read.
///
/// # Errors
///
/// Without the option; an invalid kubeconfig.
pub(crate) fn open_kubeconfig(kubeconfig: Option<&PathBuf>) -> Result<Kubernetes<'static>> {
    let file = kubeconfig.context("--kubeconfig is missing: a node may not read this")?;
    let store = Kubernetes::of_person(file)?;
    store.time().limit_each_request();
    Ok(store)
}

/// Those of these addresses whose owner has no object and that no pod names. What can't be told is
/// named on stderr, and isn't among them.
///
/// # Errors
///
/// Those of the store.
pub(crate) fn retain_gone_owners(
    store: &mut Kubernetes<'_>,
    owned: Vec<Held>,
) -> Result<Vec<Held>, StoreError> {
    let states = store.owned_states(&owned)?;
    let both = owned.into_iter().zip(states);
    let gone = both.filter_map(|(held, state)| match state {
        OwnedState::Gone => Some(held),
        OwnedState::Used => None,
        OwnedState::Unknown(why) => {
            warn(format!("{} is kept, {}: {why}", held.key, held.describe()));
            None
        }
    });
    Ok(gone.collect())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// A port of this machine that refuses connections.
    const CLOSED: &str = "http://127.0.0.1:1";

    #[test]
    fn a_list_of_an_engine_that_is_away_ends() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, content: serde_json::Value| {
            let path = folder.path().join(name);
            fs::write(&path, content.to_string()).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            path
        };
        let etcd = json!({"endpoints": [CLOSED], "timeout": "600ms"});
        let kubeconfig = json!({"current-context": "a",
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
            "clusters": [{"name": "a", "cluster": {"server": CLOSED}}],
            "users": [{"name": "a", "user": {"token": "x"}}]});
        let kubeconfig = write("kubeconfig", kubeconfig);
        let kubernetes = json!({"kubeconfig": kubeconfig, "timeout": "600ms"});
        let sections: [(&'static dyn Engine, _); 2] = [
            (
                &etcd::ENGINE,
                json!({"node": "n", "etcd": write("etcd.json", etcd)}),
            ),
            (
                kubernetes::ENGINE,
                json!({"node": "n", "kubernetes": kubernetes}),
            ),
        ];
        for (engine, ipam) in sections {
            let ipam = serde_json::from_value(ipam).unwrap();
            let cluster = Cluster::read(engine, ipam).unwrap();
            let mut store = cluster.open().unwrap();
            let mut attempts = 0;
            let listed = until_answered(&mut *store, |store| {
                attempts += 1;
                assert!(attempts < 20, "{} is asked for ever", engine.name());
                store.names()
            });
            assert!(attempts > 1 && listed.is_err_and(|error| error.may_pass()));
        }
    }
}

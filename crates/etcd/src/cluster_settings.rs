//! A cluster as the configuration describes it: `ipam.etcd` and `ipam.node`.

use cluster::{ConfiguredCluster, Group, Node};
use cni::{Cancellation, Error, Object};

use crate::{Endpoint, Engine, Keys, Settings};

/// A cluster's etcd, and this node in it.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// `ipam.etcd`.
    pub settings: Settings,
    /// This node.
    pub node: Node,
    /// The keys below the prefix.
    pub keys: Keys,
}

impl Cluster {
    /// Reads the `ipam` section.
    ///
    /// # Errors
    ///
    /// Code 7, naming the key and the value.
    pub fn read(ipam: &Object) -> Result<Self, Error> {
        let settings = Settings::read(ipam)?;
        let endpoints = settings.endpoints.iter().map(Endpoint::url);
        Ok(Self {
            node: Node {
                name: cluster::node_name(ipam)?,
                is_named: cluster::configured_name(ipam)?.is_some(),
                state_dir: settings.state_dir.clone(),
                cache_dir: settings.cache_dir.clone(),
                prefix: settings.prefix.clone(),
                endpoints: endpoints.map(str::to_owned).collect(),
                timeout: settings.timeout,
            },
            keys: Keys::new(&settings.prefix),
            settings,
        })
    }
}

impl ConfiguredCluster for Cluster {
    fn node(&self) -> &Node {
        &self.node
    }

    fn engine<'a>(
        &'a self,
        cancellation: Option<&'a dyn Cancellation>,
    ) -> Box<dyn cluster::Engine + 'a> {
        Box::new(Engine::new(self, cancellation))
    }

    fn path(&self) -> String {
        format!("etcd:{}", self.settings.prefix)
    }

    fn path_of_addresses(&self, pool: &str) -> String {
        let prefix = self.keys.prefix(&Group::Addresses(Some(pool.to_owned())));
        format!("etcd:{}", prefix.trim_end_matches('/'))
    }
}

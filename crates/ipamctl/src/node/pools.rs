//! The pools of a network: those of its configuration, and those that recorded selectors have
//! chosen.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use cni::{Call, Environment, NetworkConfig, NetworkName, Object};
use ipam::{Pool, has_ranges};
use serde_json::value::RawValue;

use crate::node::network::{HOST_LOCAL, Network, RANGES, RULES};
use crate::shared_pools::SharedCluster;

/// A pool, and the directory in which its reservations are kept.
#[derive(Clone, Debug)]
pub(crate) struct PlacedPool {
    pub(crate) pool: Pool,
    /// The directory.
    pub(crate) directory: PathBuf,
    /// Its index among the pools of an ADD, which `last_reserved_ip.<index>` is named
    /// after; `None` where only an ADD decides it.
    pub(crate) index: Option<usize>,
    /// The networks that use it.
    pub(crate) networks: Vec<NetworkName>,
}

impl PlacedPool {
    /// The pool's name, if it has one.
    pub(crate) fn name(&self) -> Option<&str> {
        self.pool.name.as_ref().map(ipam::PoolName::as_str)
    }

    /// The network or the named pool that its reservations are kept under.
    pub(crate) fn directory_name(&self) -> &NetworkName {
        self.pool.directory(&self.networks[0])
    }

    /// True if this network uses it, or if it has this name.
    pub(crate) fn is_of(&self, name: &str) -> bool {
        let mut networks = self.networks.iter();
        self.name() == Some(name) || networks.any(|network| network.as_str() == name)
    }

    /// Its identity: the same ranges in the same directory are one pool. Excluded addresses may
    /// differ: a selector excludes addresses that it keeps for others.
    fn key(&self) -> (PathBuf, String) {
        (self.directory.clone(), self.pool.ranges.to_string())
    }
}

/// Pools, each once, and the errors of their configuration.
#[derive(Debug, Default)]
pub(crate) struct Pools {
    pub(crate) all: Vec<PlacedPool>,
    /// By network.
    pub(crate) problems: Vec<(NetworkName, String)>,
    /// The index of each in [`Self::all`].
    known: HashMap<(PathBuf, String), usize>,
    directories: HashSet<PathBuf>,
}

impl Pools {
    /// Adds the pools of a network's configuration.
    pub(crate) fn add_configured(&mut self, network: &Network, environment: &Environment) {
        if network.has_delegate(RANGES) || network.has_delegate(HOST_LOCAL) {
            self.add_read(network, of_ranges(&network.config, environment), true);
        }
        self.add_read(network, of_catalogue(network), false);
    }

    /// Adds these pools, or the reason why they can't be read.
    fn add_read(&mut self, network: &Network, read: Result<Vec<Pool>, String>, is_indexed: bool) {
        match read {
            Ok(pools) => {
                for (i, pool) in pools.into_iter().enumerate() {
                    self.add_of(network, pool, is_indexed.then_some(i));
                }
            }
            Err(reason) => self.problems.push((network.name.clone(), reason)),
        }
    }

    /// Adds a pool that is defined in a cluster.
    pub(crate) fn add_shared(&mut self, cluster: &SharedCluster, pool: Pool) {
        let Some(name) = &pool.name else { return };
        self.add(PlacedPool {
            directory: cluster.directory(name.as_str()),
            pool,
            index: None,
            networks: cluster.networks.clone(),
        });
    }

    /// Adds the pools that a recorded answer of a selector has.
    pub(crate) fn add_recorded(&mut self, network: &Network, answer: &RawValue) {
        let pools = of_answer(answer);
        for pool in pools.into_iter().flatten() {
            self.add_of(network, pool, None);
        }
    }

    fn add_of(&mut self, network: &Network, pool: Pool, index: Option<usize>) {
        self.add(PlacedPool {
            directory: network.directory(pool.directory(&network.name).as_str()),
            pool,
            index,
            networks: vec![network.name.clone()],
        });
    }

    fn add(&mut self, new: PlacedPool) {
        match self.known.entry(new.key()) {
            Entry::Occupied(at) => {
                let known = &mut self.all[*at.get()];
                for network in new.networks {
                    if !known.networks.contains(&network) {
                        known.networks.push(network);
                    }
                }
            }
            Entry::Vacant(place) => {
                place.insert(self.all.len());
                self.directories.insert(new.directory.clone());
                self.all.push(new);
            }
        }
    }

    /// True if a pool is known to be kept in this directory.
    pub(crate) fn has_directory(&self, directory: &Path) -> bool {
        self.directories.contains(directory)
    }
}

/// The range sets of host-local's configuration.
pub(crate) fn of_ranges(
    config: &NetworkConfig,
    environment: &Environment,
) -> Result<Vec<Pool>, String> {
    let call = Call::new(config.without_call(), environment);
    let pools = ipam_ds_ranges::pools(&call).map_err(|error| error.msg)?;
    with_ranges("pools", pools)
}

/// The pools of the catalogue, of the configuration and of `ipam.poolsDir`, or those of an
/// array `ipam.pools`.
fn of_catalogue(network: &Network) -> Result<Vec<Pool>, String> {
    let pools = if network.has_delegate(RULES) {
        ipam_ds_rules::explain::pools(&network.config).map_err(|error| error.msg)?
    } else {
        // Of another selector, the key may be anything.
        let pools = network.ipam().read("ipam", "pools");
        pools.ok().flatten().unwrap_or_default()
    };
    with_ranges("ipam.pools", pools)
}

/// The pools of a result.
pub(crate) fn of_answer(answer: &RawValue) -> Result<Vec<Pool>, String> {
    let object: Result<Object, _> = cni::read("result", answer);
    let pools = object.and_then(|object| object.read("result", "pools"));
    let pools = pools.map_err(|error| error.msg)?;
    with_ranges("pools", pools.unwrap_or_default())
}

/// The pools that have ranges. An allocator knows any other by its name.
fn with_ranges(path: &str, objects: Vec<Object>) -> Result<Vec<Pool>, String> {
    let objects = objects.into_iter().enumerate();
    objects
        .filter(|(_, pool)| has_ranges(pool))
        .map(|(i, pool)| Pool::read(&format!("{path}[{i}]"), pool).map_err(|error| error.msg))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(name: &str, ipam: &str) -> Network {
        let content = format!(
            r#"{{"cniVersion":"1.0.0","name":"{name}","plugins":[{{"type":"bridge","ipam":{ipam}}}]}}"#
        );
        let path = std::path::Path::new("/nowhere/n.conflist");
        let list = conflist::Conflist::parse(path, content.as_bytes()).unwrap();
        Network::of(&list, &Environment::default())
            .unwrap()
            .unwrap()
    }

    #[test]
    fn a_named_pool_of_two_networks_is_one_pool() {
        let ipam = r#"{"type":"ipam-delegated","delegates":["ipam-ds-rules","ipam-da-host-local"],"pools":{"web":{"subnet":"10.2.0.0/24"},"lan":{}},"rules":[{"pools":["web"]}]}"#;
        let mut pools = Pools::default();
        for name in ["a", "b"] {
            pools.add_configured(&network(name, ipam), &Environment::default());
        }
        assert_eq!(pools.all.len(), 1);
        assert_eq!(pools.all[0].name(), Some("web"));
        assert_eq!(pools.all[0].networks.len(), 2);
        assert!(pools.all[0].directory.ends_with("networks/web"));
    }

    #[test]
    fn a_recorded_pool_is_the_configured_one_whatever_it_excludes() {
        let ipam = r#"{"type":"ipam-delegated","delegates":["ipam-ds-rules"],"pools":{"web":{"subnet":"10.2.0.0/24"}}}"#;
        let network = network("a", ipam);
        let mut pools = Pools::default();
        pools.add_configured(&network, &Environment::default());
        let answer = r#"{"pools":[{"name":"web","subnet":"10.2.0.0/24","exclude":["10.2.0.9"]},{"name":"db","subnet":"10.3.0.0/24"},{"name":"lan"}]}"#;
        pools.add_recorded(&network, &RawValue::from_string(answer.to_owned()).unwrap());
        let names: Vec<_> = pools.all.iter().map(PlacedPool::name).collect();
        assert_eq!(names, [Some("web"), Some("db")]);
        assert_eq!(pools.all[0].pool.ranges.capacity(), 253);
    }

    #[test]
    fn range_sets_are_pools_in_order_and_wrong_ones_are_named() {
        let mut pools = Pools::default();
        let two = r#"{"type":"host-local","ranges":[[{"subnet":"10.1.0.0/24"}],[{"subnet":"fd00::/64"}]]}"#;
        pools.add_configured(&network("a", two), &Environment::default());
        let indexes: Vec<Option<usize>> = pools.all.iter().map(|pool| pool.index).collect();
        assert_eq!(indexes, [Some(0), Some(1)]);
        let wrong = r#"{"type":"host-local","subnet":"10.1.0.9/24"}"#;
        pools.add_configured(&network("b", wrong), &Environment::default());
        assert!(pools.problems[0].1.contains("10.1.0.9/24"));
    }
}

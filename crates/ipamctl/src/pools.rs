//! The pools that the commands know, each with the directory of its reservations.
//!
//! A network's selectors name its pools ([`KnownPools::add_configured`]), a Docker network's records have
//! its subnet, and a cluster lists its own. Equal ranges in one directory are one pool of several networks.

use std::collections::HashMap;
use std::fmt;
use std::iter;
use std::path::PathBuf;

use chain::record::ListedRecord;
use cni::{Environment, Error, NetworkConfig, NetworkName, Object};
use docker_records::pool::{self, DOCKER_DIRECTORY};
use docker_records::records::CallerLine;
use ipam::{Overflow, Pool, Pools, overflow};

use crate::network::{Network, engine_of};
use crate::output::joined;

/// A pool, and the directory in which its reservations are kept.
#[derive(Clone, Debug)]
pub(crate) struct PlacedPool {
    pub(crate) pool: Pool,
    /// The directory, or the path of the addresses in a cluster.
    pub(crate) directory: PathBuf,
    /// The networks that use it.
    pub(crate) networks: Vec<NetworkName>,
}

impl PlacedPool {
    /// The pool's name, if it has one.
    pub(crate) fn name(&self) -> Option<&str> {
        self.pool.name.as_ref().map(ipam::PoolName::as_str)
    }

    /// True if this network uses it, or if it has this name.
    pub(crate) fn matches_name(&self, name: &str) -> bool {
        let mut networks = self.networks.iter();
        self.name() == Some(name) || networks.any(|network| network.as_str() == name)
    }

    /// Its key in a conflist, for a finding.
    pub(crate) fn key_in_conflist(&self) -> String {
        match self.name() {
            Some(name) => format!("ipam.pools.{name}"),
            None => "ipam.ranges".to_owned(),
        }
    }

    /// Its identity: the same ranges in the same directory are one pool. Excluded addresses may
    /// differ: a selector excludes addresses that it keeps for others.
    fn key(&self) -> (PathBuf, String) {
        (self.directory.clone(), self.pool.ranges.to_string())
    }
}

/// `mynet: 10.1.0.1-10.1.0.254`, `pool web of mynet: 10.1.0.1-10.1.0.254`.
impl fmt::Display for PlacedPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let networks = joined(&self.networks, ", ");
        match self.name() {
            Some(name) if self.networks.is_empty() => write!(f, "pool {name}")?,
            Some(name) => write!(f, "pool {name} of {networks}")?,
            None => f.write_str(&networks)?,
        }
        write!(f, ": {}", self.pool.ranges)
    }
}

/// Pools, each once, and the errors of their configuration.
#[derive(Debug, Default)]
pub(crate) struct KnownPools {
    pub(crate) all: Vec<PlacedPool>,
    /// By network.
    pub(crate) problems: Vec<(NetworkName, String)>,
    /// The index of each in [`Self::all`].
    known: HashMap<(PathBuf, String), usize>,
}

impl KnownPools {
    /// Adds the pools of a network's configuration.
    pub(crate) fn add_configured(&mut self, network: &Network, environment: &Environment) {
        let pools = network.pools(environment);
        let read = pools.and_then(|pools| ranged_pools(pools.unwrap_or_default(), &network.config));
        self.add_read(network, read.map_err(|error| error.msg));
    }

    /// Adds the subnet of a Docker network without a conflist, which only records have. False if
    /// the record is of no Docker network.
    pub(crate) fn add_docker_subnet(&mut self, network: &Network, record: &ListedRecord) -> bool {
        let Some(CallerLine::Address(line)) = record.usable().and_then(CallerLine::of) else {
            return false;
        };
        self.add_read(network, docker_pools(&line.pool));
        true
    }

    /// Adds these pools of a network, or the reason why they can't be read. Those of a cluster are
    /// read there.
    fn add_read(&mut self, network: &Network, read: Result<Vec<Pool>, String>) {
        match read {
            Err(reason) => self.problems.push((network.name.clone(), reason)),
            Ok(_) if engine_of(&network.delegates).is_some() => {}
            Ok(pools) => pools.into_iter().for_each(|pool| {
                let directory = pool.directory(&network.name).as_str();
                self.add(PlacedPool {
                    directory: network.data_dir.join(directory),
                    pool,
                    networks: vec![network.name.clone()],
                });
            }),
        }
    }

    /// Adds a pool, or its networks to the same pool.
    pub(crate) fn add(&mut self, new: PlacedPool) {
        let next = self.all.len();
        let at = *self.known.entry(new.key()).or_insert(next);
        if at == next {
            self.all.push(new);
            return;
        }
        let networks = &mut self.all[at].networks;
        for network in new.networks {
            if !networks.contains(&network) {
                networks.push(network);
            }
        }
    }
}

/// The pool of this ID of a Docker network; none if a conflist has it.
fn docker_pools(id: &str) -> Result<Vec<Pool>, String> {
    let pool = pool::Pool::parse(id).map_err(|error| format!("{error:#}"))?;
    if pool.conflist.is_some() {
        return Ok(Vec::new());
    }
    let mut range = pool::range_of(pool.subnet, pool.range);
    range.set("space", DOCKER_DIRECTORY);
    let read = Pool::read("pool", range).map_err(|error| error.msg)?;
    Ok(vec![read])
}

/// The pools of a selector that have ranges, also those behind an `or`: an allocator knows any other
/// by its name. A call has all of those without a name, and none gives a gateway of another one.
fn ranged_pools(entries: Vec<Object>, config: &NetworkConfig) -> Result<Vec<Pool>, Error> {
    let mut ranged = Vec::new();
    for entry in entries {
        let or = overflow::objects("ipam.pools", &entry)?;
        if iter::once(&entry).chain(&or).all(Pool::has_ranges) {
            ranged.push(entry);
        }
    }
    let is_named = |entry: &Object| entry.get("name").is_some();
    let (named, of_each_call): (Vec<_>, Vec<_>) = ranged.into_iter().partition(is_named);
    let mut read = Pools::new(of_each_call).read(config)?;
    for (i, entry) in named.into_iter().enumerate() {
        read.push(Overflow::read(&format!("ipam.pools[{i}]"), entry)?);
    }
    Ok(read.into_iter().flat_map(Overflow::into_all).collect())
}

/// The names of the pools that a network may use; `None` if that isn't known.
pub(crate) fn pool_names(network: &Network, environment: &Environment) -> Option<Vec<String>> {
    let pools = network.pools(environment).ok()??;
    let name = |pool: &Object| pool.read("ipam.pools", "name").ok().flatten();
    Some(pools.iter().filter_map(name).collect())
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

    fn environment() -> Environment {
        Environment::default().with("CNI_PATH", "/nowhere")
    }

    #[test]
    fn a_named_pool_of_two_networks_is_one_pool() {
        let ipam = r#"{"type":"ipam-delegated","delegates":["ipam-ds-rules","ipam-da-host-local"],"pools":{"web":{"subnet":"10.2.0.0/24"},"lan":{}},"rules":[{"pools":["web"]}]}"#;
        let mut pools = KnownPools::default();
        for name in ["a", "b"] {
            pools.add_configured(&network(name, ipam), &environment());
        }
        assert_eq!(pools.all.len(), 1);
        assert_eq!(pools.all[0].name(), Some("web"));
        assert_eq!(pools.all[0].networks.len(), 2);
        assert!(pools.all[0].directory.ends_with("networks/pools"));
    }

    #[test]
    fn range_sets_are_pools_in_order_and_wrong_ones_are_named() {
        let mut pools = KnownPools::default();
        let two = r#"{"type":"host-local","ranges":[[{"subnet":"10.1.0.0/24"}],[{"subnet":"fd00::/64"}]]}"#;
        pools.add_configured(&network("a", two), &environment());
        let titles: Vec<String> = pools.all.iter().map(PlacedPool::to_string).collect();
        let ipv6 = "a: fd00::1-fd00::ffff:ffff:ffff:ffff";
        assert_eq!(titles, ["a: 10.1.0.1-10.1.0.254", ipv6]);
        let wrong = r#"{"type":"host-local","subnet":"10.1.0.9/24"}"#;
        pools.add_configured(&network("b", wrong), &environment());
        assert!(pools.problems[0].1.contains("10.1.0.9/24"));
    }
}

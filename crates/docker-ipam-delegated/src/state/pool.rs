//! A pool that Docker has asked for, and its ID.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use chain::record::state_dir;
use cni::{Environment, Error, NetworkConfig, NetworkName, Object};
use ipam::{Interval, IpNet, Range};
use serde::{Deserialize, Serialize};

/// The address space of networks that only this node has. The pools of a space don't overlap, and
/// each space has its own reservations.
pub(crate) const LOCAL: &str = "ipam-delegated-local";

/// The address space of networks that span nodes.
pub(crate) const GLOBAL: &str = "ipam-delegated-global";

/// Facts of a network: its options.
pub(crate) type Facts = BTreeMap<String, String>;

/// A pool, with all that is needed for an address of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pool {
    /// The address space.
    pub(crate) space: NetworkName,
    /// The name of the network configuration whose chain serves it.
    #[serde(default)]
    pub(crate) conflist: Option<NetworkName>,
    /// The subnet.
    pub(crate) subnet: IpNet,
    /// The sub-pool: addresses are given from this part, unless Docker requests another address.
    #[serde(default)]
    pub(crate) range: Option<IpNet>,
    /// The network's options.
    pub(crate) facts: Facts,
    /// True if the chain is told the subnet, false if its selectors choose it.
    pub(crate) is_given: bool,
    /// The gateway of the chain's pool.
    pub(crate) gateway: IpAddr,
    /// The network configuration of the chain, as JSON, without anything of one address.
    pub(crate) config: String,
}

impl Pool {
    /// The ID: the same for the same pool.
    pub(crate) fn id(&self) -> String {
        let conflist = self.conflist.as_ref().map_or("", NetworkName::as_str);
        let mut id = format!("{}/{conflist}/{}", self.space, self.subnet);
        if let Some(range) = self.range {
            id += &format!("/{range}");
        }
        id
    }

    /// The configuration and the folder of its chain.
    ///
    /// # Errors
    ///
    /// The pool's configuration is wrong.
    pub(crate) fn chain(&self) -> Result<PoolChain, Error> {
        let config = NetworkConfig::parse(self.config.clone().into_bytes())?;
        // The configuration names the folder.
        let records = state_dir(&config, &Environment::default())?;
        Ok(PoolChain { config, records })
    }

    /// The configuration of a pool that no network configuration serves, with the pool as
    /// `ipam.ranges`; `None` for another.
    pub(crate) fn config_with_ranges(&self) -> Option<NetworkConfig> {
        if self.conflist.is_some() {
            return None;
        }
        let mut config: Object = serde_json::from_str(&self.config).ok()?;
        let mut ipam: Object = config.read("", "ipam").ok()??;
        let range = range_of(self.subnet, self.range, Some(self.gateway));
        ipam.set("ranges", &[[range]]);
        config.set("ipam", &ipam);
        network_config(&config).ok()
    }

    /// True if both pools keep their reservations in one place, so that they may overlap.
    pub(crate) fn is_part_of_the_same(&self, other: &Self) -> bool {
        self.subnet == other.subnet && self.conflist == other.conflist
    }
}

/// The chain of a pool.
#[derive(Clone, Debug)]
pub(crate) struct PoolChain {
    /// The configuration, enough for the release of an address: the rest is in its record and in
    /// the allocator's folders.
    pub(crate) config: NetworkConfig,
    /// The folder of the records.
    pub(crate) records: PathBuf,
}

/// Parses a configuration that the daemon has built.
///
/// # Errors
///
/// Code 7: a value in it is wrong.
pub(crate) fn network_config(config: &Object) -> Result<NetworkConfig, Error> {
    NetworkConfig::parse(serde_json::to_vec(config).expect("an object is JSON"))
}

/// A range, as `host-local` reads it.
pub(crate) fn range_of(subnet: IpNet, range: Option<IpNet>, gateway: Option<IpAddr>) -> Object {
    let mut object = Object::new();
    object.set("subnet", &subnet.to_string());
    if let Some(range) = range.map(Interval::from) {
        let all = Interval::from(subnet);
        // For an end of the subnet, the default is used: it leaves out the network's own address.
        if range.first() != all.first() {
            object.set("rangeStart", &range.first().to_string());
        }
        if range.last() != all.last() {
            object.set("rangeEnd", &range.last().to_string());
        }
    }
    if let Some(gateway) = gateway {
        object.set("gateway", &gateway.to_string());
    }
    object
}

/// The range of a whole subnet, with the default gateway.
///
/// # Errors
///
/// Code 7: the subnet has no address to give.
pub(crate) fn whole(subnet: IpNet) -> Result<Range, Error> {
    let mut keys = Object::new();
    keys.set("subnet", &subnet);
    Range::read("Pool", &keys)
}

/// A gateway that Docker has of a pool. No attachment holds it: the chain gives it to nobody.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Gateway {
    /// The ID of the pool.
    pub(crate) pool: String,
    /// The address.
    pub(crate) ip: IpAddr,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(subnet: &str, range: Option<&str>, conflist: Option<&str>) -> Pool {
        Pool {
            range: range.map(|text| text.parse().unwrap()),
            conflist: conflist.map(|name| name.parse().unwrap()),
            ..Pool::example(subnet)
        }
    }

    #[test]
    fn an_id_names_space_configuration_pool_and_sub_pool() {
        let id = |pool: Pool| pool.id();
        assert_eq!(
            id(pool("10.1.0.0/16", None, None)),
            "ipam-delegated-local//10.1.0.0/16"
        );
        assert_eq!(
            id(pool("10.1.0.0/16", Some("10.1.5.0/24"), Some("web"))),
            "ipam-delegated-local/web/10.1.0.0/16/10.1.5.0/24"
        );
    }

    #[test]
    fn a_pool_is_remembered_as_it_is() {
        let pool = pool("fd00::/64", Some("fd00::/80"), Some("web"));
        let json = serde_json::to_string(&pool).unwrap();
        assert_eq!(serde_json::from_str::<Pool>(&json).unwrap(), pool);
    }
}

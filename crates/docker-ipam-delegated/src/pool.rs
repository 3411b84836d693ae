//! A pool that Docker has asked for, and its ID.

use std::net::IpAddr;

use cni::{ContainerId, Error, NetworkName, Object};
use ipam::{IpNet, Range};
use serde::{Deserialize, Serialize};

use crate::address_space::AddressSpace;
use crate::facts::Facts;
use crate::refusal::{Refusal, impossible};

/// A pool, with all that is needed for an address of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pool {
    /// The address space.
    pub(crate) space: AddressSpace,
    /// The name of the network configuration whose chain serves it.
    #[serde(default)]
    pub(crate) conflist: Option<NetworkName>,
    /// The subnet.
    pub(crate) subnet: IpNet,
    /// The sub-pool: the part that addresses are given from unless requested.
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

    /// Refuses a gateway that is the network's own address or the broadcast address of the
    /// subnet, as Docker's own IPAM driver does, and one that leaves no address in the
    /// sub-pool.
    ///
    /// # Errors
    ///
    /// The reason, naming the address.
    pub(crate) fn refuse_gateway(&self, gateway: IpAddr) -> Result<(), Refusal> {
        let subnet = self.subnet;
        if gateway == subnet.network() {
            return Err(impossible(format!(
                "Address: {gateway} is the network's own address of {subnet}; it can't be the gateway"
            )));
        }
        // IPv6 has no broadcast.
        if gateway.is_ipv4() && gateway == subnet.broadcast() {
            return Err(impossible(format!(
                "Address: {gateway} is the broadcast address of {subnet}; it can't be the gateway"
            )));
        }
        let Some(range) = self.range else {
            return Ok(());
        };
        let left = whole(subnet)?.addresses().intersection(range.into());
        match left.filter(|it| it.size() == 1 && it.contains(gateway)) {
            Some(_) => Err(impossible(format!(
                "Address: {gateway} is the only address of the SubPool {range}; as the gateway, it \
                 leaves none for containers: --gateway or --ip-range must be another"
            ))),
            None => Ok(()),
        }
    }

    /// True if both pools keep their reservations in one place, so that they may overlap.
    pub(crate) fn is_part_of_the_same(&self, other: &Self) -> bool {
        self.subnet == other.subnet && self.conflist == other.conflist
    }
}

/// The range of a whole subnet, with the gateway that it has unless somebody says another.
///
/// # Errors
///
/// Code 7: the subnet has no address to give.
pub(crate) fn whole(subnet: IpNet) -> Result<Range, Error> {
    let mut keys = Object::new();
    keys.set("subnet", &subnet);
    Range::read("Pool", &keys)
}

/// A reference to a pool: one `RequestPool` without its `ReleasePool`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reference {
    /// The pool.
    pub(crate) pool: Pool,
}

/// An address that Docker has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Address {
    /// The ID of its pool.
    pub(crate) pool: String,
    /// The address, once there is one.
    #[serde(default)]
    pub(crate) ip: Option<IpAddr>,
    /// The container ID of the attachment that holds the address; `None` for the pool's
    /// gateway, which nobody holds.
    #[serde(default)]
    pub(crate) container_id: Option<ContainerId>,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn pool(subnet: &str, range: Option<&str>, conflist: Option<&str>) -> Pool {
        Pool {
            space: crate::address_space::LOCAL.parse().unwrap(),
            conflist: conflist.map(|it| it.parse().unwrap()),
            subnet: subnet.parse().unwrap(),
            range: range.map(|it| it.parse().unwrap()),
            facts: Facts::new(),
            is_given: true,
            gateway: "10.1.0.1".parse().unwrap(),
            config: "{}".to_owned(),
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
    fn a_gateway_is_a_hosts_address_and_leaves_one_for_a_container() {
        let refused = |range: Option<&str>, gateway: &str| {
            let subnet = if gateway.contains(':') {
                "fd00::/64"
            } else {
                "10.1.0.0/24"
            };
            let gateway = gateway.parse().unwrap();
            let refused = pool(subnet, range, None).refuse_gateway(gateway);
            refused.err().map_or_else(String::new, |it| it.to_string())
        };
        for (range, gateway, why) in [
            (None, "10.1.0.0", "10.1.0.0 is the network's own address"),
            (None, "10.1.0.255", "10.1.0.255 is the broadcast address"),
            (None, "fd00::", "fd00:: is the network's own address"),
            (
                Some("10.1.0.7/32"),
                "10.1.0.7",
                "10.1.0.7 is the only address of the SubPool 10.1.0.7/32",
            ),
            // Its other address is the network's own.
            (
                Some("10.1.0.0/31"),
                "10.1.0.1",
                "10.1.0.1 is the only address of the SubPool 10.1.0.0/31",
            ),
        ] {
            let said = refused(range, gateway);
            assert!(said.contains(why), "{gateway}: {said}");
        }
        for (range, gateway) in [
            (None, "10.1.0.254"),
            (None, "fd00::ffff:ffff:ffff:ffff"),
            (Some("10.1.0.7/32"), "10.1.0.1"),
            (Some("10.1.0.2/31"), "10.1.0.2"),
        ] {
            assert_eq!(refused(range, gateway), "", "{gateway}");
        }
    }

    #[test]
    fn a_pool_is_remembered_as_it_is() {
        let it = pool("fd00::/64", Some("fd00::/80"), Some("web"));
        let json = serde_json::to_string(&it).unwrap();
        assert_eq!(serde_json::from_str::<Pool>(&json).unwrap(), it);
    }
}

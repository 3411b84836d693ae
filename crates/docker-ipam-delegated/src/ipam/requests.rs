//! Docker's requests for pools and addresses: their bodies, in which a missing text is empty, except for
//! a pool's ID, and their values.

use std::net::IpAddr;

use anyhow::{Context, Result, bail, ensure};
use cni::NetworkName;
use docker_records::pool::{Options, Pool};
use ipam::IpNet;
use serde::Deserialize;

use crate::ipam::facts;

/// The address space of networks that only this node has.
pub(crate) const LOCAL: &str = "ipam-delegated-local";

/// The address space of networks that span nodes.
pub(crate) const GLOBAL: &str = "ipam-delegated-global";

/// Body of `IpamDriver.RequestPool`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct RequestPool {
    pub(crate) address_space: String,
    pub(crate) pool: String,
    pub(crate) sub_pool: String,
    pub(crate) options: Options,
    pub(crate) v6: bool,
}

/// Body of the other calls: a pool, and for an address also this. A release has no options.
#[derive(Debug, Deserialize)]
pub(crate) struct PoolCall {
    #[serde(rename = "PoolID")]
    pub(crate) pool_id: String,
    #[serde(rename = "Address", default)]
    pub(crate) address: String,
    #[serde(rename = "Options", default)]
    pub(crate) options: Options,
}

/// A request for a pool.
#[derive(Debug)]
pub(crate) struct PoolRequest {
    /// The requested pool and sub-pool; `None` if the daemon is to choose.
    pub(crate) subnet: Option<(IpNet, Option<IpNet>)>,
    /// The network configuration whose chain serves the pool.
    pub(crate) conflist: Option<NetworkName>,
    /// The network's other options.
    pub(crate) options: Options,
    /// True if a chosen pool should be of IPv6.
    pub(crate) v6: bool,
}

impl PoolRequest {
    /// Reads a request.
    ///
    /// # Errors
    ///
    /// A wrong value, named with its key.
    pub(crate) fn read(request: RequestPool) -> Result<Self> {
        let space = request.address_space;
        ensure!(!space.is_empty(), "AddressSpace is missing");
        ensure!(
            space != GLOBAL,
            "networks of a swarm get no addresses from this node: use Docker's own IPAM driver"
        );
        ensure!(
            space == LOCAL,
            "AddressSpace: {space:?} is no address space of this daemon, which has {LOCAL:?}"
        );
        let subnet = match (request.pool.as_str(), request.sub_pool.as_str()) {
            ("", "") => None,
            ("", range) => bail!("SubPool: {range} without a Pool that it is a part of"),
            (pool, "") => Some((subnet("Pool", pool)?, None)),
            (pool, range) => {
                let (pool, range) = (subnet("Pool", pool)?, subnet("SubPool", range)?);
                let is_part = pool.contains(&range);
                ensure!(is_part, "SubPool: {range} is no part of the Pool {pool}");
                Some((pool, Some(range)))
            }
        };
        let (conflist, options) = facts::of_network(request.options)?;
        let parse = |name: String| {
            let parsed = name.parse();
            parsed.with_context(|| format!("option conflist={name}"))
        };
        Ok(Self {
            subnet,
            conflist: conflist.map(parse).transpose()?,
            options,
            v6: request.v6,
        })
    }

    /// The requested pool, with this subnet and sub-pool.
    ///
    /// # Errors
    ///
    /// They have no address to give.
    pub(crate) fn pool(&self, subnet: IpNet, range: Option<IpNet>) -> Result<Pool> {
        Pool::new(subnet, range, self.options.clone(), self.conflist.clone())
    }
}

/// The pool of an ID that Docker gives back; `None`, with a warning, if the text is no ID.
pub(crate) fn known_pool(id: &str) -> Option<Pool> {
    let pool = Pool::parse(id);
    pool.inspect_err(|error| tracing::warn!("released, and not known: {error:#}"))
        .ok()
}

/// Host bits are dropped, as Go's `net.ParseCIDR` does.
fn subnet(key: &str, text: &str) -> Result<IpNet> {
    let subnet = ipam::parse_subnet(text).map(|subnet| subnet.trunc());
    subnet.with_context(|| format!("{key}: {text:?} is no subnet (such as 10.1.0.0/16)"))
}

/// The address that is requested from a pool; `None` if any will do.
///
/// # Errors
///
/// It is no address, or none of the pool's.
pub(crate) fn address(text: &str, subnet: IpNet) -> Result<Option<IpAddr>> {
    if text.is_empty() {
        return Ok(None);
    }
    let ip = ipam::parse_address(text);
    let ip = ip.with_context(|| format!("Address: {text:?} is no IP address"))?;
    let ip = ipam::in_family(subnet.addr().is_ipv4(), ip);
    let is_inside = subnet.contains(&ip);
    ensure!(is_inside, "Address: {ip} is not in the pool {subnet}");
    Ok(Some(ip))
}

/// Refuses the network's own address and the broadcast address of a subnet, as Docker's own IPAM
/// driver does.
///
/// # Errors
///
/// The reason, naming the address.
pub(crate) fn refuse_ends(subnet: IpNet, ip: IpAddr) -> Result<()> {
    ensure!(
        ip != subnet.network(),
        "Address: {ip} is the network's own address of {subnet}; no interface can have it"
    );
    // IPv6 has no broadcast.
    ensure!(
        ip.is_ipv6() || ip != subnet.broadcast(),
        "Address: {ip} is the broadcast address of {subnet}; no interface can have it"
    );
    Ok(())
}

/// Refuses a gateway that is the only address of its sub-pool.
///
/// # Errors
///
/// The reason, naming the address.
pub(crate) fn refuse_only(pool: &Pool, gateway: IpAddr) -> Result<()> {
    if let (Some(range), Some(given)) = (pool.range, pool.given) {
        ensure!(
            given.size() > 1 || !given.contains(gateway),
            "Address: {gateway} is the only address of the SubPool {range}; as the gateway, it \
             leaves none for containers: --gateway or --ip-range must be another"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::body;

    fn read(body: &str) -> Result<PoolRequest, String> {
        PoolRequest::read(body::decode(body).unwrap()).map_err(|why| format!("{why:#}"))
    }

    #[test]
    fn a_request_is_read_whole() {
        let request = read(
            r#"{"AddressSpace":"ipam-delegated-local","Pool":"10.1.2.3/16","SubPool":"10.1.5.0/24","Options":{"conflist":"web","x":"y"}}"#,
        );
        let request = request.unwrap();
        let (subnet, range) = request.subnet.unwrap();
        assert_eq!(
            (subnet.to_string(), range.unwrap().to_string()),
            ("10.1.0.0/16".into(), "10.1.5.0/24".into())
        );
        assert_eq!(request.conflist.unwrap().as_str(), "web");
        assert_eq!(request.options["x"], "y");
    }

    #[test]
    fn each_refusal_names_the_key_and_the_value() {
        for (body, message) in [
            (r#"{"Pool":"10.1.0.0/16"}"#, "AddressSpace is missing"),
            (
                r#"{"AddressSpace":"other","Pool":"10.1.0.0/16"}"#,
                "AddressSpace: \"other\" is no address space of this daemon, which has \"ipam-delegated-local\"",
            ),
            (
                r#"{"AddressSpace":"ipam-delegated-local","SubPool":"10.1.0.0/24"}"#,
                "SubPool: 10.1.0.0/24 without a Pool that it is a part of",
            ),
            (
                r#"{"AddressSpace":"ipam-delegated-local","Pool":"10.1.0.0"}"#,
                "Pool: \"10.1.0.0\" is no subnet (such as 10.1.0.0/16)",
            ),
            (
                r#"{"AddressSpace":"ipam-delegated-local","Pool":"10.1.0.0/24","SubPool":"10.1.0.0/16"}"#,
                "SubPool: 10.1.0.0/16 is no part of the Pool 10.1.0.0/24",
            ),
        ] {
            assert_eq!(read(body).unwrap_err(), message);
        }
        assert!(
            read(r#"{"AddressSpace":"ipam-delegated-local","Options":{"conflist":"../x"}}"#)
                .unwrap_err()
                .starts_with("option conflist=../x: ")
        );
    }

    #[test]
    fn an_address_is_one_of_the_pools() {
        let address =
            |text| address(text, "10.1.0.0/16".parse().unwrap()).map_err(|why| format!("{why:#}"));
        assert_eq!(address("").unwrap(), None);
        assert_eq!(
            address("::ffff:10.1.0.7").unwrap().unwrap().to_string(),
            "10.1.0.7"
        );
        assert_eq!(address("x").unwrap_err(), "Address: \"x\" is no IP address");
        assert_eq!(
            address("10.2.0.1").unwrap_err(),
            "Address: 10.2.0.1 is not in the pool 10.1.0.0/16"
        );
    }

    #[test]
    fn an_end_of_the_subnet_is_told_by_its_kind() {
        let refused = |subnet: &str, ip: &str| {
            let refused = refuse_ends(subnet.parse().unwrap(), ip.parse().unwrap());
            refused.err().map(|why| why.to_string()).unwrap_or_default()
        };
        for (subnet, ip, why) in [
            ("10.1.0.0/24", "10.1.0.0", "10.1.0.0 is the network's own"),
            ("10.1.0.0/24", "10.1.0.255", "10.1.0.255 is the broadcast"),
            ("fd00::/64", "fd00::", "fd00:: is the network's own"),
        ] {
            assert!(refused(subnet, ip).contains(why));
        }
        assert_eq!(refused("10.1.0.0/24", "10.1.0.254"), "");
        assert_eq!(refused("fd00::/64", "fd00::ffff:ffff:ffff:ffff"), "");
    }
}

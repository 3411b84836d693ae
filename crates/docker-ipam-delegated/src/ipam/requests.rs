//! Docker's requests for pools and addresses, parsed.

use std::net::IpAddr;

use anyhow::{Context, Result, bail, ensure};
use cni::NetworkName;
use ipam::IpNet;

use crate::ipam::facts;
use crate::ipam::ipam_bodies;
use crate::state::pool::Facts;

/// A request for a pool.
#[derive(Debug)]
pub(crate) struct PoolRequest {
    /// The address space.
    pub(crate) space: NetworkName,
    /// The requested pool and sub-pool; `None` if the daemon is to choose.
    pub(crate) subnet: Option<(IpNet, Option<IpNet>)>,
    /// The network configuration whose chain serves the pool.
    pub(crate) conflist: Option<NetworkName>,
    /// The network's other options.
    pub(crate) facts: Facts,
    /// True if a chosen pool should be of IPv6.
    pub(crate) v6: bool,
}

impl PoolRequest {
    /// Reads a request.
    ///
    /// # Errors
    ///
    /// A wrong value, named with its key.
    pub(crate) fn read(request: ipam_bodies::RequestPool) -> Result<Self> {
        let space = request.address_space;
        ensure!(!space.is_empty(), "AddressSpace is missing");
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
        let (conflist, facts) = facts::of_network(request.options)?;
        let parsed = conflist.map(|name| {
            let parsed = name.parse();
            parsed.with_context(|| format!("option conflist={name}"))
        });
        Ok(Self {
            subnet,
            conflist: parsed.transpose()?,
            facts,
            v6: request.v6,
            space: space
                .parse()
                .with_context(|| format!("AddressSpace: {space:?}"))?,
        })
    }
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
            r#"{"AddressSpace":"a","Pool":"10.1.2.3/16","SubPool":"10.1.5.0/24","Options":{"conflist":"web","x":"y"}}"#,
        );
        let request = request.unwrap();
        let (subnet, range) = request.subnet.unwrap();
        assert_eq!(
            (subnet.to_string(), range.unwrap().to_string()),
            ("10.1.0.0/16".into(), "10.1.5.0/24".into())
        );
        assert_eq!(request.conflist.unwrap().as_str(), "web");
        assert_eq!(request.facts["x"], "y");
    }

    #[test]
    fn each_refusal_names_the_key_and_the_value() {
        for (body, message) in [
            (r#"{"Pool":"10.1.0.0/16"}"#, "AddressSpace is missing"),
            (
                r#"{"AddressSpace":"a","SubPool":"10.1.0.0/24"}"#,
                "SubPool: 10.1.0.0/24 without a Pool that it is a part of",
            ),
            (
                r#"{"AddressSpace":"a","Pool":"10.1.0.0"}"#,
                "Pool: \"10.1.0.0\" is no subnet (such as 10.1.0.0/16)",
            ),
            (
                r#"{"AddressSpace":"a","Pool":"10.1.0.0/24","SubPool":"10.1.0.0/16"}"#,
                "SubPool: 10.1.0.0/16 is no part of the Pool 10.1.0.0/24",
            ),
        ] {
            assert_eq!(read(body).unwrap_err(), message);
        }
        assert!(
            read(r#"{"AddressSpace":"a","Options":{"conflist":"../x"}}"#)
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
}

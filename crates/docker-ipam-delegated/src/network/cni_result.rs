//! The parts of the result of a network configuration's plugins that Docker needs.
//! Specification, section 5, "ADD Success".

use std::net::IpAddr;

use anyhow::Result;
use cni::{Error, Object};
use ipam::IpNet;
use serde_json::value::RawValue;

/// The name of a result in messages.
const RESULT: &str = "the plugins' result";

/// The result.
#[derive(Debug, Default)]
pub(crate) struct CniResult {
    ips: Vec<Address>,
    /// The routes.
    pub(crate) routes: Vec<Route>,
    /// The MAC address of the interface in the namespace; empty if the result has none.
    pub(crate) mac: String,
}

/// An entry of `ips`.
#[derive(Debug)]
struct Address {
    address: IpNet,
    gateway: Option<IpAddr>,
    /// True for an address of an interface in the namespace.
    is_inside: bool,
}

/// An entry of `routes`.
#[derive(Debug)]
pub(crate) struct Route {
    /// The destination.
    pub(crate) dst: IpNet,
    /// The next hop, if the route has one.
    gw: Option<IpAddr>,
}

/// An entry of `interfaces`.
struct Interface {
    mac: Option<String>,
    is_inside: bool,
}

impl CniResult {
    /// Reads a result.
    ///
    /// # Errors
    ///
    /// The key that is wrong, with its value.
    pub(crate) fn read(result: &RawValue) -> Result<Self> {
        let result: Object = cni::read(RESULT, result)?;
        let interfaces = entries(&result, "interfaces", |path, entry| {
            let sandbox: Option<String> = entry.read(path, "sandbox")?;
            Ok(Interface {
                mac: entry.read(path, "mac")?,
                // The host's interfaces have no namespace, or an empty one.
                is_inside: sandbox.is_some_and(|sandbox| !sandbox.is_empty()),
            })
        })?;
        let ips = entries(&result, "ips", |path, entry| {
            let interface: Option<usize> = entry.read(path, "interface")?;
            let interface = interface.and_then(|index| interfaces.get(index));
            Ok(Address {
                address: entry.required(path, "address")?,
                gateway: entry.read(path, "gateway")?,
                is_inside: interface.is_none_or(|interface| interface.is_inside),
            })
        })?;
        let routes = entries(&result, "routes", |path, entry| {
            Ok(Route {
                dst: entry.required(path, "dst")?,
                gw: entry.read(path, "gw")?,
            })
        })?;
        let inside = interfaces.into_iter().find(|interface| interface.is_inside);
        let mac = inside
            .and_then(|interface| interface.mac)
            .unwrap_or_default();
        Ok(Self { ips, routes, mac })
    }

    /// The first address of a family, with the length of its prefix.
    pub(crate) fn address(&self, v4: bool) -> Option<IpNet> {
        let mut addresses = self.ips.iter().map(|ip| ip.address);
        addresses.find(|address| address.addr().is_ipv4() == v4)
    }

    /// The addresses of the interface in the namespace, with the lengths of their prefixes.
    pub(crate) fn addresses_inside(&self) -> Vec<IpNet> {
        let inside = self.ips.iter().filter(|ip| ip.is_inside);
        inside.map(|ip| ip.address).collect()
    }

    /// The next hop of a route: the route's, or else the first gateway of its family.
    pub(crate) fn next_hop(&self, route: &Route) -> Option<IpAddr> {
        let mut gateways = self.ips.iter().filter_map(|ip| ip.gateway);
        let is_v4 = route.dst.addr().is_ipv4();
        let of_family = || gateways.find(|gateway| gateway.is_ipv4() == is_v4);
        route.gw.or_else(of_family)
    }
}

/// Reads the entries of a list of a result.
fn entries<T>(
    result: &Object,
    list: &str,
    read: impl Fn(&str, &Object) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    let entries: Vec<Object> = result.read(RESULT, list)?.unwrap_or_default();
    let numbered = entries.iter().enumerate();
    let read = |(i, entry)| read(&format!("{RESULT}.{list}[{i}]"), entry);
    numbered.map(read).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(result: &Value) -> Result<CniResult> {
        CniResult::read(&RawValue::from_string(result.to_string()).unwrap())
    }

    #[test]
    fn a_result_is_read_as_docker_wants_to_know_it() {
        let result = read(&json!({
            "interfaces": [{"name": "br0", "mac": "aa:00:00:00:00:01"}, {"name": "eth0", "mac": "aa:00:00:00:00:02", "sandbox": "/x"}],
            "ips": [{"address": "10.0.0.5/24", "gateway": "10.0.0.1", "interface": 1}, {"address": "fd00::5/64"},
                {"address": "10.0.0.1/24", "interface": 0}],
            "routes": [{"dst": "0.0.0.0/0"}, {"dst": "10.9.0.0/16", "gw": "10.0.0.9"}],
        }))
        .unwrap();
        assert_eq!(result.mac, "aa:00:00:00:00:02");
        assert_eq!(result.address(false).unwrap().to_string(), "fd00::5/64");
        let inside = result.addresses_inside();
        assert_eq!(
            inside.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["10.0.0.5/24", "fd00::5/64"]
        );
        let hops: Vec<String> = result
            .routes
            .iter()
            .map(|route| result.next_hop(route).unwrap().to_string())
            .collect();
        assert_eq!(hops, ["10.0.0.1", "10.0.0.9"]);
        assert!(read(&json!({"interfaces": null})).is_ok());
    }

    #[test]
    fn what_is_no_result_is_refused_with_its_key() {
        for (result, why) in [
            (
                json!({"ips": [{"address": "10.0.0.5/33"}]}),
                "ips[0].address",
            ),
            (json!({"ips": [{"address": "x"}]}), "ips[0].address"),
            (json!({"routes": [{"dst": "x"}]}), "routes[0].dst"),
            (
                json!({"routes": [{"dst": "::/0", "gw": "y"}]}),
                "routes[0].gw",
            ),
            (json!({"interfaces": [{"mac": 7}]}), "interfaces[0].mac"),
        ] {
            let error = read(&result).unwrap_err();
            let error = error.to_string();
            assert!(error.starts_with(&format!("{RESULT}.{why}")), "{error}");
        }
    }
}

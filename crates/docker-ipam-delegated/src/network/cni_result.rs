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
    interfaces: Vec<Interface>,
}

/// An entry of `ips`.
#[derive(Debug)]
struct Address {
    address: IpNet,
    gateway: Option<IpAddr>,
    /// The index of its interface.
    interface: Option<usize>,
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
#[derive(Debug)]
struct Interface {
    mac: String,
    /// The path of the interface's namespace; empty for the host's.
    sandbox: String,
}

impl CniResult {
    /// Reads a result.
    ///
    /// # Errors
    ///
    /// The key that is wrong, with its value.
    pub(crate) fn read(result: &RawValue) -> Result<Self> {
        let result: Object = cni::read(RESULT, result)?;
        let text =
            |path: &str, entry: &Object, key| entry.read(path, key).map(Option::unwrap_or_default);
        Ok(Self {
            ips: entries(&result, "ips", |path, entry| {
                Ok(Address {
                    address: entry.required(path, "address")?,
                    gateway: entry.read(path, "gateway")?,
                    interface: entry.read(path, "interface")?,
                })
            })?,
            routes: entries(&result, "routes", |path, entry| {
                Ok(Route {
                    dst: entry.required(path, "dst")?,
                    gw: entry.read(path, "gw")?,
                })
            })?,
            interfaces: entries(&result, "interfaces", |path, entry| {
                Ok(Interface {
                    mac: text(path, entry, "mac")?,
                    sandbox: text(path, entry, "sandbox")?,
                })
            })?,
        })
    }

    /// The first address of a family, with the length of its prefix.
    pub(crate) fn address(&self, v4: bool) -> Option<IpNet> {
        let mut addresses = self.ips.iter().map(|ip| ip.address);
        addresses.find(|address| address.addr().is_ipv4() == v4)
    }

    /// The addresses of the interface in the namespace, with the lengths of their prefixes.
    pub(crate) fn addresses_inside(&self) -> Vec<IpNet> {
        let is_inside = |index: usize| {
            let interface = self.interfaces.get(index);
            interface.is_none_or(|interface| !interface.sandbox.is_empty())
        };
        let inside = self
            .ips
            .iter()
            .filter(|ip| ip.interface.is_none_or(is_inside));
        inside.map(|ip| ip.address).collect()
    }

    /// The MAC address of the interface in the namespace; empty if the result has none.
    pub(crate) fn mac(&self) -> &str {
        let mut interfaces = self.interfaces.iter();
        let inside = interfaces.find(|interface| !interface.sandbox.is_empty());
        inside.map_or("", |interface| &interface.mac)
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
        assert_eq!(result.mac(), "aa:00:00:00:00:02");
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

//! The parts of the result of a network configuration's plugins that Docker needs.
//! Specification, section 5, "ADD Success".

use std::net::IpAddr;

use anyhow::Result;
use ipam::IpNet;
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::go_json::without_nulls;

/// The name of a result in messages.
const RESULT: &str = "the plugins' result";

/// The result.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct CniResult {
    ips: Vec<Address>,
    /// The routes.
    pub(crate) routes: Vec<Route>,
    interfaces: Vec<Interface>,
}

/// An entry of `ips`.
#[derive(Debug, Deserialize)]
struct Address {
    address: IpNet,
    gateway: Option<IpAddr>,
    /// The index of its interface.
    interface: Option<usize>,
}

/// An entry of `routes`.
#[derive(Debug, Deserialize)]
pub(crate) struct Route {
    /// The destination.
    pub(crate) dst: IpNet,
    /// The next hop, if the route has one.
    gw: Option<IpAddr>,
}

/// An entry of `interfaces`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
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
        let result = without_nulls(serde_json::from_str(result.get())?);
        Ok(cni::read(RESULT, &to_raw_value(&result)?)?)
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

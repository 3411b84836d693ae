//! The parts of the result of a network configuration's plugins that Docker needs.
//! Specification, section 5, "ADD Success".

use std::net::IpAddr;

use cni::{Error, IpConfig, IpamResult, read};
use ipam::IpNet;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The name of a result in messages.
const RESULT: &str = "the plugins' result";

/// The result.
#[derive(Debug, Default)]
pub(crate) struct CniResult {
    /// The addresses with the lengths of their prefixes, each with its gateway.
    pub(crate) addresses: Vec<(IpNet, Option<IpAddr>)>,
    /// The routes.
    pub(crate) routes: Vec<Route>,
    interfaces: Vec<Interface>,
}

/// A route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    /// Its destination.
    pub(crate) to: IpNet,
    /// Its own next hop, if it has one.
    pub(crate) gateway: Option<IpAddr>,
}

/// An entry of `interfaces`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Interface {
    name: String,
    mac: String,
    /// The path of the namespace that it is in; empty if that is the host's.
    sandbox: String,
}

impl CniResult {
    /// Reads a result.
    ///
    /// # Errors
    ///
    /// Code 7, naming the key that is wrong and its value.
    pub(crate) fn read(result: &RawValue) -> Result<Self, Error> {
        let result = IpamResult::read(RESULT, result)?;
        let net = |config: &IpConfig| {
            let whole = if config.ip().is_ipv4() { 32 } else { 128 };
            let net = IpNet::new(config.ip(), config.prefix_len().unwrap_or(whole));
            let net =
                net.map_err(|error| wrong("ips", &config.ip().to_string(), &error.to_string()))?;
            Ok((net, config.gateway()))
        };
        let interfaces = result
            .other("interfaces")
            .filter(|value| value.get() != "null");
        let interfaces = interfaces.map(|raw| read(&format!("{RESULT}.interfaces"), raw));
        Ok(Self {
            addresses: result.ips.iter().map(net).collect::<Result<_, _>>()?,
            routes: result.routes.iter().map(route).collect::<Result<_, _>>()?,
            interfaces: interfaces.transpose()?.unwrap_or_default(),
        })
    }

    /// The first address of a family.
    pub(crate) fn address(&self, v4: bool) -> Option<IpNet> {
        let mut addresses = self.addresses.iter().map(|address| address.0);
        addresses.find(|address| address.addr().is_ipv4() == v4)
    }

    /// The MAC address of the interface in the namespace; empty if the result has none.
    pub(crate) fn mac(&self) -> &str {
        let inside = self
            .interfaces
            .iter()
            .find(|interface| !interface.sandbox.is_empty());
        inside.map_or("", |interface| &interface.mac)
    }

    /// The names of the interfaces on the host.
    pub(crate) fn host_interfaces(&self) -> impl Iterator<Item = &str> {
        let outside = self
            .interfaces
            .iter()
            .filter(|interface| interface.sandbox.is_empty());
        outside.map(|interface| interface.name.as_str())
    }

    /// The next hop of a route: its own, or its address's gateway.
    pub(crate) fn next_hop(&self, route: Route) -> Option<IpAddr> {
        let is_of_family = |ip: &IpAddr| ip.is_ipv4() == route.to.addr().is_ipv4();
        let mut gateways = self.addresses.iter().filter_map(|address| address.1);
        route.gateway.or_else(|| gateways.find(is_of_family))
    }
}

fn route(entry: &cni::Object) -> Result<Route, Error> {
    let path = &format!("{RESULT}.routes");
    let to: String = entry.read(path, "dst")?.unwrap_or_default();
    let gateway: Option<String> = entry.read(path, "gw")?;
    let gateway = gateway.filter(|text| !text.is_empty());
    let ip = |text: String| {
        let ip = text.parse::<IpAddr>();
        ip.map_err(|error| wrong("routes", &text, &error.to_string()))
    };
    Ok(Route {
        to: to
            .parse()
            .map_err(|_| wrong("routes", &to, "it is no destination"))?,
        gateway: gateway.map(ip).transpose()?,
    })
}

fn wrong(key: &str, value: &str, why: &str) -> Error {
    Error::config(format!("{RESULT}.{key}: {value:?}: {why}"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(result: &Value) -> Result<CniResult, Error> {
        CniResult::read(&RawValue::from_string(result.to_string()).unwrap())
    }

    #[test]
    fn a_result_is_read_as_docker_wants_to_know_it() {
        let result = read(&json!({
            "interfaces": [{"name": "br0", "mac": "aa:00:00:00:00:01"}, {"name": "eth0", "mac": "aa:00:00:00:00:02", "sandbox": "/x"}],
            "ips": [{"address": "10.0.0.5/24", "gateway": "10.0.0.1"}, {"address": "fd00::5/64"}],
            "routes": [{"dst": "0.0.0.0/0"}, {"dst": "10.9.0.0/16", "gw": "10.0.0.9"}],
        }))
        .unwrap();
        assert_eq!(result.mac(), "aa:00:00:00:00:02");
        assert!(result.host_interfaces().eq(["br0"]));
        assert_eq!(result.address(false).unwrap().to_string(), "fd00::5/64");
        let hops: Vec<String> = result
            .routes
            .iter()
            .map(|route| result.next_hop(*route).unwrap().to_string())
            .collect();
        assert_eq!(hops, ["10.0.0.1", "10.0.0.9"]);
        assert!(read(&json!({"interfaces": null})).is_ok());
    }

    #[test]
    fn what_is_no_result_is_refused_with_its_key() {
        for (result, why) in [
            (json!({"ips": [{"address": "10.0.0.5/33"}]}), "ips"),
            (json!({"ips": [{"address": "x"}]}), "ips[0].address"),
            (json!({"routes": [{"dst": "x"}]}), "routes: \"x\""),
            (
                json!({"routes": [{"dst": "::/0", "gw": "y"}]}),
                "routes: \"y\"",
            ),
            (json!({"interfaces": [{"name": 7}]}), "interfaces[0].name"),
        ] {
            let error = read(&result).unwrap_err();
            assert!(error.msg.starts_with(&format!("{RESULT}.{why}")), "{error}");
        }
    }
}

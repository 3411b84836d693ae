//! The result of a network configuration's plugins, as far as Docker wants to know it.
//! Specification, section 5, "ADD Success".

use std::net::IpAddr;

use ipam::IpNet;
use serde_json::Value;
use serde_json::value::RawValue;

/// The result.
#[derive(Debug, Default)]
pub(crate) struct Plumbed {
    /// The addresses with the lengths of their prefixes, each with its gateway.
    pub(crate) addresses: Vec<(IpNet, Option<IpAddr>)>,
    /// Destinations, and gateways if they have one of their own.
    pub(crate) routes: Vec<(IpNet, Option<IpAddr>)>,
    /// The MAC address of the interface in the namespace.
    pub(crate) mac: String,
    /// The names of the interfaces outside of it.
    pub(crate) host_interfaces: Vec<String>,
}

impl Plumbed {
    /// Reads a result.
    pub(crate) fn read(result: &RawValue) -> Self {
        let result: Value = serde_json::from_str(result.get()).unwrap_or_default();
        let list = |key: &str| result[key].as_array().cloned().unwrap_or_default();
        let ip = |value: &Value| value.as_str()?.parse::<IpAddr>().ok();
        let net = |value: &Value| value.as_str()?.parse::<IpNet>().ok();
        let addresses = list("ips");
        let addresses = addresses
            .iter()
            .filter_map(|it| Some((net(&it["address"])?, ip(&it["gateway"]))));
        let routes = list("routes");
        let routes = routes
            .iter()
            .filter_map(|it| Some((net(&it["dst"])?, ip(&it["gw"]))));
        let is_inside = |it: &&Value| it["sandbox"].as_str().is_some_and(|it| !it.is_empty());
        let interfaces = list("interfaces");
        let mac = interfaces
            .iter()
            .find(is_inside)
            .and_then(|it| it["mac"].as_str());
        let outside = interfaces.iter().filter(|it| !is_inside(it));
        let names = outside.filter_map(|it| it["name"].as_str());
        Self {
            addresses: addresses.collect(),
            routes: routes.collect(),
            mac: mac.unwrap_or_default().to_owned(),
            host_interfaces: names.map(str::to_owned).collect(),
        }
    }

    /// The first address of a family.
    pub(crate) fn address(&self, v4: bool) -> Option<IpNet> {
        let mut addresses = self.addresses.iter().map(|it| it.0);
        addresses.find(|it| it.addr().is_ipv4() == v4)
    }

    /// The next hop of a route: its own, or its address's gateway.
    pub(crate) fn next_hop(&self, (to, gateway): (IpNet, Option<IpAddr>)) -> Option<IpAddr> {
        let is_of_family = |it: &IpAddr| it.is_ipv4() == to.addr().is_ipv4();
        let mut gateways = self.addresses.iter().filter_map(|it| it.1);
        gateway.or_else(|| gateways.find(is_of_family))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_result_is_read_as_docker_wants_to_know_it() {
        let result = json!({
            "interfaces": [{"name": "br0", "mac": "aa:00:00:00:00:01"}, {"name": "eth0", "mac": "aa:00:00:00:00:02", "sandbox": "/x"}],
            "ips": [{"address": "10.0.0.5/24", "gateway": "10.0.0.1"}, {"address": "fd00::5/64"}],
            "routes": [{"dst": "0.0.0.0/0"}, {"dst": "10.9.0.0/16", "gw": "10.0.0.9"}],
        });
        let it = Plumbed::read(&RawValue::from_string(result.to_string()).unwrap());
        assert_eq!(it.mac, "aa:00:00:00:00:02");
        assert_eq!(it.host_interfaces, ["br0"]);
        assert_eq!(it.address(false).unwrap().to_string(), "fd00::5/64");
        let hops: Vec<String> = it
            .routes
            .iter()
            .map(|it2| it.next_hop(*it2).unwrap().to_string())
            .collect();
        assert_eq!(hops, ["10.0.0.1", "10.0.0.9"]);
    }
}

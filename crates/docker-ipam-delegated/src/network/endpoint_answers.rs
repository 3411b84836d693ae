//! Answers to Docker's calls for an endpoint, from the result of its plugins.

use std::net::IpAddr;

use serde_json::{Value, json};

use crate::network::cni_result::CniResult;
use crate::network::network_bodies::Interface;

/// The values of the interface that Docker has not given: it refuses an answer with any other
/// value. If Docker has given one address, no second one is offered.
pub(crate) fn offered(interface: &Interface, result: &CniResult) -> Interface {
    let has_address = !interface.address.is_empty() || !interface.address_v6.is_empty();
    let address = |v4| match result.address(v4) {
        Some(address) if !has_address => address.to_string(),
        _ => String::new(),
    };
    let has_mac = !interface.mac_address.is_empty();
    Interface {
        address: address(true),
        address_v6: address(false),
        mac_address: if has_mac { "" } else { &result.mac }.to_owned(),
    }
}

/// The answer to `Join`: gateways and routes of a result, and the name of the interface that
/// Docker takes into the container.
pub(crate) fn joined(result: &CniResult, outside: &str) -> Value {
    let mut joined = json!({
        "InterfaceName": {"SrcName": outside, "DstPrefix": "eth"},
        // If the result has no default route, Docker must not add one.
        "DisableGatewayService": true,
    });
    let mut routes = Vec::new();
    for route in &result.routes {
        // Without an address of the route's family, Docker can't set the route, and doesn't start
        // the container: it enables IPv6 only on an interface with an IPv6 address.
        if result.address(route.dst.addr().is_ipv4()).is_none() {
            continue;
        }
        // Docker's type 0 has a next hop, type 1 has none.
        let Some(hop) = result.next_hop(route) else {
            routes.push(json!({"Destination": route.dst, "RouteType": 1}));
            continue;
        };
        let gateway = match hop {
            IpAddr::V4(_) => "Gateway",
            IpAddr::V6(_) => "GatewayIPv6",
        };
        if route.dst.prefix_len() == 0 && joined.get(gateway).is_none() {
            joined[gateway] = json!(hop);
        } else {
            routes.push(json!({"Destination": route.dst, "RouteType": 0, "NextHop": hop}));
        }
    }
    joined["StaticRoutes"] = json!(routes);
    joined
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;
    use serde_json::{Value, json};

    use super::*;

    fn read(result: &Value) -> CniResult {
        CniResult::read(&RawValue::from_string(result.to_string()).unwrap()).unwrap()
    }

    fn interface(address: &str, mac: &str) -> Interface {
        Interface {
            address: address.to_owned(),
            mac_address: mac.to_owned(),
            ..Interface::default()
        }
    }

    #[test]
    fn docker_is_told_what_it_does_not_know() {
        let result = read(&json!({
            "interfaces": [{"name": "eth0", "mac": "aa:00:00:00:00:02", "sandbox": "/x"}],
            "ips": [{"address": "10.0.0.5/24"}, {"address": "fd00::5/64"}]}));
        let all = offered(&interface("", ""), &result);
        assert_eq!(
            serde_json::to_value(all).unwrap(),
            json!({"Address": "10.0.0.5/24", "AddressIPv6": "fd00::5/64", "MacAddress": "aa:00:00:00:00:02"})
        );
        let nothing = offered(&interface("10.0.0.5/24", "02:42:00:00:00:01"), &result);
        assert_eq!(nothing, Interface::default());
        let mac = offered(&interface("10.0.0.5/24", ""), &result);
        assert_eq!(mac, interface("", "aa:00:00:00:00:02"));
    }

    #[test]
    fn gateways_and_routes_are_those_of_the_result() {
        let result = read(&json!({
            "ips": [{"address": "10.0.0.5/24", "gateway": "10.0.0.1"}, {"address": "fd00::5/64", "gateway": "fd00::1"}],
            "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}, {"dst": "10.9.0.0/16", "gw": "10.0.0.9"}]}));
        assert_eq!(
            joined(&result, "cni1"),
            json!({"InterfaceName": {"SrcName": "cni1", "DstPrefix": "eth"}, "Gateway": "10.0.0.1", "GatewayIPv6": "fd00::1",
                   "StaticRoutes": [{"Destination": "10.9.0.0/16", "RouteType": 0, "NextHop": "10.0.0.9"}], "DisableGatewayService": true})
        );
        let result =
            read(&json!({"ips": [{"address": "10.0.0.5/24"}], "routes": [{"dst": "10.9.0.0/16"}]}));
        assert_eq!(
            joined(&result, "cni1"),
            json!({"InterfaceName": {"SrcName": "cni1", "DstPrefix": "eth"},
                   "StaticRoutes": [{"Destination": "10.9.0.0/16", "RouteType": 1}], "DisableGatewayService": true})
        );
    }
}

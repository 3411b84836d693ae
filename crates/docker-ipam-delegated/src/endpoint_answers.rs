//! What plugins are told of an endpoint, and what Docker is told of their result.

use std::net::IpAddr;

use ipam::IpNet;

use crate::facts;
use crate::memory::ATTACHMENT;
use crate::namespaces::Namespace;
use crate::network_driver::Network;
use crate::network_wire::{Interface, InterfaceName, Joined, StaticRoute};
use crate::plugin_list::Attached;
use crate::plumbed::Plumbed;
use crate::wire;

/// What the plugins are told of an endpoint.
pub(crate) fn attached(network: &Network, id: &str, interface: &Interface) -> Attached {
    let mac = &interface.mac_address;
    let gateway_of = |address: &str| {
        let net: IpNet = address.parse().ok()?;
        let gateways = network
            .gateways
            .iter()
            .filter_map(|it| it.parse::<IpNet>().ok());
        let mut gateways = gateways.map(|it| it.addr());
        gateways
            .find(|it| net.contains(it))
            .map(|it| it.to_string())
    };
    let addresses = [&interface.address, &interface.address_v6].into_iter();
    let addresses = addresses.filter(|it| !it.is_empty());
    let mut options = wire::Options::new();
    if !mac.is_empty() {
        options.insert(facts::MAC_OPTION.to_owned(), mac.clone());
    }
    Attached {
        container_id: format!("{ATTACHMENT}{id}"),
        netns: Namespace::of(id).path(),
        args: facts::cni_args(&network.facts, &options),
        mac: mac.clone(),
        addresses: addresses
            .map(|it| (it.clone(), gateway_of(it).unwrap_or_default()))
            .collect(),
    }
}

/// What Docker doesn't know yet. It refuses to be told the rest.
pub(crate) fn offered(interface: &Interface, plumbed: &Plumbed) -> Interface {
    let address = |known: &str, v4| match plumbed.address(v4) {
        Some(address) if known.is_empty() => address.to_string(),
        _ => String::new(),
    };
    let is_known = !interface.address.is_empty() || !interface.address_v6.is_empty();
    if is_known {
        let mac = if interface.mac_address.is_empty() {
            plumbed.mac.clone()
        } else {
            String::new()
        };
        return Interface {
            mac_address: mac,
            ..Interface::default()
        };
    }
    Interface {
        address: address(&interface.address, true),
        address_v6: address(&interface.address_v6, false),
        mac_address: match interface.mac_address.is_empty() {
            true => plumbed.mac.clone(),
            false => String::new(),
        },
    }
}

/// Gateways and routes of a result, as Docker sets them in the container.
pub(crate) fn joined(plumbed: &Plumbed, outside: &str) -> Joined {
    let mut joined = Joined {
        interface_name: InterfaceName {
            src_name: outside.to_owned(),
            dst_prefix: "eth".to_owned(),
        },
        // Without a default route, the network has no way out, and wants none.
        disable_gateway_service: true,
        ..Joined::default()
    };
    for (to, gateway) in plumbed.routes.iter().copied() {
        let next_hop = plumbed.next_hop((to, gateway));
        let is_default = to.prefix_len() == 0;
        match next_hop {
            Some(IpAddr::V4(hop)) if is_default && joined.gateway.is_empty() => {
                joined.gateway = hop.to_string();
            }
            Some(IpAddr::V6(hop)) if is_default && joined.gateway_v6.is_empty() => {
                joined.gateway_v6 = hop.to_string();
            }
            hop => joined.static_routes.push(StaticRoute {
                destination: to.to_string(),
                route_type: u8::from(hop.is_none()),
                next_hop: hop.map_or_else(String::new, |it| it.to_string()),
            }),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;
    use serde_json::{Value, json};

    use super::*;

    fn plumbed(result: &Value) -> Plumbed {
        Plumbed::read(&RawValue::from_string(result.to_string()).unwrap())
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
        let it = plumbed(&json!({
            "interfaces": [{"name": "eth0", "mac": "aa:00:00:00:00:02", "sandbox": "/x"}],
            "ips": [{"address": "10.0.0.5/24"}, {"address": "fd00::5/64"}]}));
        let all = offered(&interface("", ""), &it);
        assert_eq!(
            serde_json::to_value(all).unwrap(),
            json!({"Address": "10.0.0.5/24", "AddressIPv6": "fd00::5/64", "MacAddress": "aa:00:00:00:00:02"})
        );
        let nothing = offered(&interface("10.0.0.5/24", "02:42:00:00:00:01"), &it);
        assert_eq!(nothing, Interface::default());
        let mac = offered(&interface("10.0.0.5/24", ""), &it);
        assert_eq!(mac, interface("", "aa:00:00:00:00:02"));
    }

    #[test]
    fn gateways_and_routes_are_those_of_the_result() {
        let it = plumbed(&json!({
            "ips": [{"address": "10.0.0.5/24", "gateway": "10.0.0.1"}, {"address": "fd00::5/64", "gateway": "fd00::1"}],
            "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}, {"dst": "10.9.0.0/16", "gw": "10.0.0.9"}]}));
        assert_eq!(
            serde_json::to_value(joined(&it, "cni1")).unwrap(),
            json!({"InterfaceName": {"SrcName": "cni1", "DstPrefix": "eth"}, "Gateway": "10.0.0.1", "GatewayIPv6": "fd00::1",
                   "StaticRoutes": [{"Destination": "10.9.0.0/16", "RouteType": 0, "NextHop": "10.0.0.9"}], "DisableGatewayService": true})
        );
        let it = plumbed(
            &json!({"ips": [{"address": "10.0.0.5/24"}], "routes": [{"dst": "10.9.0.0/16"}]}),
        );
        assert_eq!(
            serde_json::to_value(joined(&it, "cni1")).unwrap(),
            json!({"InterfaceName": {"SrcName": "cni1", "DstPrefix": "eth"},
                   "StaticRoutes": [{"Destination": "10.9.0.0/16", "RouteType": 1}], "DisableGatewayService": true})
        );
    }

    #[test]
    fn an_address_of_dockers_has_the_gateway_of_its_subnet() {
        let network = Network {
            id: "n".to_owned(),
            conflist: "web".to_owned(),
            facts: [("team".to_owned(), "shop".to_owned())].into(),
            gateways: vec!["10.1.0.1/24".to_owned(), "10.2.0.1/24".to_owned()],
            is_internal: false,
        };
        let it = attached(
            &network,
            "e",
            &interface("10.2.0.7/24", "02:42:00:00:00:01"),
        );
        assert_eq!(
            it.addresses,
            [("10.2.0.7/24".to_owned(), "10.2.0.1".to_owned())]
        );
        assert_eq!(it.args, "IgnoreUnknown=1;team=shop;MAC=02:42:00:00:00:01");
        assert_eq!(
            (it.container_id.as_str(), it.netns.as_str()),
            ("docker-e", "/run/netns/docker-e")
        );
    }
}

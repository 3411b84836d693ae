//! Makes a new endpoint from Docker's request: the arguments of its plugins (libcni's
//! `RuntimeConf`).

use cni::NetworkConfig;
use ipam::IpNet;

use crate::ipam::facts;
use crate::network::namespaces::Namespace;
use crate::network::network_bodies::Interface;
use crate::state::endpoint::{Endpoint, Network};
use crate::state::record::Plugged;

/// The endpoint of this ID in a network, with this network configuration.
pub(crate) fn new_endpoint(
    network: &Network,
    config: NetworkConfig,
    id: &str,
    interface: &Interface,
) -> Endpoint {
    let mac = &interface.mac_address;
    let addresses = [&interface.address, &interface.address_v6].into_iter();
    let addresses = addresses.filter(|address| !address.is_empty());
    let with_gateway = |address: &String| {
        let gateway = gateway_of(network, address).unwrap_or_default();
        (address.clone(), gateway)
    };
    Endpoint {
        plugged: Plugged {
            id: id.to_owned(),
            network: network.id.clone(),
            mac: mac.clone(),
            addresses: addresses.map(with_gateway).collect(),
        },
        config,
        netns: Namespace::of(id).path(),
        args: facts::cni_args(&network.facts, mac),
        result: None,
        sandbox: None,
    }
}

/// The gateway of an address's subnet, if Docker has given the network one.
fn gateway_of(network: &Network, address: &str) -> Option<String> {
    let net: IpNet = address.parse().ok()?;
    let gateways = network.gateways.iter();
    let mut gateways = gateways.filter_map(|text| Some(text.parse::<IpNet>().ok()?.addr()));
    let gateway = gateways.find(|gateway| net.contains(gateway))?;
    Some(gateway.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_dockers_has_the_gateway_of_its_subnet() {
        let network = Network {
            id: "n".to_owned(),
            conflist: "web".to_owned(),
            facts: [("team".to_owned(), "shop".to_owned())].into(),
            gateways: vec!["10.1.0.1/24".to_owned(), "10.2.0.1/24".to_owned()],
            is_internal: false,
        };
        let interface = Interface {
            address: "10.2.0.7/24".to_owned(),
            mac_address: "02:42:00:00:00:01".to_owned(),
            ..Interface::default()
        };
        let config = br#"{"cniVersion":"1.0.0","name":"web"}"#;
        let config = NetworkConfig::parse(config.to_vec()).unwrap();
        let endpoint = new_endpoint(&network, config, "e", &interface);
        assert_eq!(
            endpoint.plugged.addresses,
            [("10.2.0.7/24".to_owned(), "10.2.0.1".to_owned())]
        );
        assert_eq!(
            endpoint.args,
            "IgnoreUnknown=1;team=shop;MAC=02:42:00:00:00:01"
        );
        assert_eq!(
            (endpoint.container_id().as_str(), endpoint.netns.as_str()),
            ("docker-e", "/run/netns/docker-e")
        );
    }
}

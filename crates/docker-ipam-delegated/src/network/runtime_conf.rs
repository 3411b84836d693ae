//! What a network configuration's plugins are told of an endpoint (libcni's `RuntimeConf`).

use ipam::IpNet;

use crate::ipam::facts;
use crate::ipam::ipam_bodies;
use crate::network::namespaces::Namespace;
use crate::network::network_bodies::Interface;
use crate::state::endpoint::RuntimeConf;
use crate::state::memory::ATTACHMENT;
use crate::state::network::Network;

impl RuntimeConf {
    /// The parameters of the endpoint of this ID.
    pub(crate) fn new(network: &Network, id: &str, interface: &Interface) -> Self {
        let mac = &interface.mac_address;
        let addresses = [&interface.address, &interface.address_v6].into_iter();
        let addresses = addresses.filter(|it| !it.is_empty());
        let mut options = ipam_bodies::Options::new();
        if !mac.is_empty() {
            options.insert(facts::MAC_OPTION.to_owned(), mac.clone());
        }
        Self {
            container_id: format!("{ATTACHMENT}{id}"),
            netns: Namespace::of(id).path(),
            args: facts::cni_args(&network.facts, &options),
            mac: mac.clone(),
            addresses: addresses
                .map(|it| (it.clone(), gateway_of(network, it).unwrap_or_default()))
                .collect(),
        }
    }
}

/// The gateway of an address's subnet, if Docker has given the network one.
fn gateway_of(network: &Network, address: &str) -> Option<String> {
    let net: IpNet = address.parse().ok()?;
    let gateways = network.gateways.iter();
    let mut gateways = gateways.filter_map(|it| Some(it.parse::<IpNet>().ok()?.addr()));
    let gateway = gateways.find(|it| net.contains(it))?;
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
        let conf = RuntimeConf::new(&network, "e", &interface);
        assert_eq!(
            conf.addresses,
            [("10.2.0.7/24".to_owned(), "10.2.0.1".to_owned())]
        );
        assert_eq!(conf.args, "IgnoreUnknown=1;team=shop;MAC=02:42:00:00:00:01");
        assert_eq!(
            (conf.container_id.as_str(), conf.netns.as_str()),
            ("docker-e", "/run/netns/docker-e")
        );
    }
}

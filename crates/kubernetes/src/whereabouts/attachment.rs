//! Finds the attachment of an allocation: the pod has the node's name, and the pod's Multus status
//! has the interface and the network of the address.

use std::collections::HashMap;
use std::net::IpAddr;

use cluster::EngineError;
use serde::Deserialize;
use serde_json::Value;

use super::Allocation;
use crate::{Client, Item, OtherResource};

/// Annotations with Multus' status of a pod; the second is the name in older releases.
const NETWORK_STATUS: [&str; 2] = [
    "k8s.v1.cni.cncf.io/network-status",
    "k8s.v1.cni.cncf.io/networks-status",
];

/// The attachment that has an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodAttachment {
    /// The Node of the pod.
    pub node: String,
    /// The network's name, as plugins receive it.
    pub network: String,
    /// The interface in the container.
    pub ifname: String,
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub pod: String,
    /// Namespace and name of the network's NetworkAttachmentDefinition; `None` if Multus' status
    /// doesn't have it.
    pub definition: Option<String>,
}

/// One interface in Multus' status.
#[derive(Clone, Debug, Deserialize)]
struct Status {
    #[serde(default)]
    name: String,
    #[serde(default)]
    interface: String,
    #[serde(default)]
    ips: Vec<String>,
}

/// Cache of pods and definitions: each is read once.
pub(super) struct Pods<'c, 'a> {
    client: &'c mut Client<'a>,
    pods: HashMap<String, Option<Item>>,
    /// The network's name, by definition.
    networks: HashMap<String, Result<String, String>>,
}

impl<'c, 'a> Pods<'c, 'a> {
    pub(super) fn new(client: &'c mut Client<'a>) -> Self {
        Self {
            client,
            pods: HashMap::new(),
            networks: HashMap::new(),
        }
    }

    /// The attachment that has the address, or the reason why it is unknown.
    pub(super) fn attachment(
        &mut self,
        allocation: &Allocation,
    ) -> Result<Result<PodAttachment, String>, EngineError> {
        let Some((namespace, name)) = split(&allocation.pod) else {
            return Ok(Err(format!("{:?} is no name of a pod", allocation.pod)));
        };
        let key = &allocation.pod;
        if !self.pods.contains_key(key) {
            let pods = OtherResource::Pod.in_namespace(namespace);
            let item = self.client.get(pods, name)?;
            self.pods.insert(key.clone(), item);
        }
        let Some(Some(item)) = self.pods.get(key) else {
            return Ok(Err(format!("pod {key} doesn't exist")));
        };
        let Some(node) = item.spec["nodeName"]
            .as_str()
            .filter(|node| !node.is_empty())
        else {
            return Ok(Err(format!("pod {key} is on no node")));
        };
        let node = node.to_owned();
        let status = match interface(item, allocation) {
            Ok(status) => status,
            Err(reason) => return Ok(Err(reason)),
        };
        let definition = split(&status.name).map(|_| status.name.clone());
        let network = match &definition {
            // An older Multus writes the network's name instead of the definition's.
            None => Ok(status.name.clone()),
            Some(definition) => self.network(definition)?,
        };
        Ok(network.map(|network| PodAttachment {
            node,
            network,
            ifname: status.interface,
            namespace: namespace.to_owned(),
            pod: name.to_owned(),
            definition,
        }))
    }

    /// The name of a definition's network.
    fn network(&mut self, definition: &str) -> Result<Result<String, String>, EngineError> {
        if let Some(known) = self.networks.get(definition) {
            return Ok(known.clone());
        }
        let (namespace, name) = split(definition).unwrap_or_default();
        let definitions = OtherResource::NetworkAttachmentDefinition.in_namespace(namespace);
        let network = match self.client.get(definitions, name)? {
            None => Err(format!(
                "NetworkAttachmentDefinition {definition} doesn't exist"
            )),
            Some(item) => network_of(&item.spec, name)
                .map_err(|why| format!("NetworkAttachmentDefinition {definition}: {why}")),
        };
        self.networks.insert(definition.to_owned(), network.clone());
        Ok(network)
    }
}

/// Splits `namespace/name`.
fn split(text: &str) -> Option<(&str, &str)> {
    text.split_once('/').filter(|(namespace, name)| {
        !namespace.is_empty() && !name.is_empty() && !name.contains('/')
    })
}

/// The pod's interface with the address.
fn interface(pod: &Item, allocation: &Allocation) -> Result<Status, String> {
    let text = NETWORK_STATUS
        .iter()
        .find_map(|key| pod.annotations.get(*key));
    let of_pod = || format!("pod {}", allocation.pod);
    let text =
        text.ok_or_else(|| format!("{} has no annotation {}", of_pod(), NETWORK_STATUS[0]))?;
    let all: Vec<Status> = serde_json::from_str(text)
        .map_err(|error| format!("{}: {}: {error}", of_pod(), NETWORK_STATUS[0]))?;
    let has_ip = |status: &&Status| {
        let mut ips = status.ips.iter().map(|ip| ip.parse::<IpAddr>());
        ips.any(|ip| ip == Ok(allocation.ip))
    };
    let is_named = |status: &&Status| {
        let ifname = allocation.ifname.as_ref();
        ifname.is_none_or(|ifname| *ifname == status.interface)
    };
    let found: Vec<&Status> = all.iter().filter(has_ip).filter(is_named).collect();
    match found[..] {
        [one] if !one.interface.is_empty() && !one.name.is_empty() => Ok(one.clone()),
        [] => Err(format!(
            "{} has no such interface with this address, by Multus' status",
            of_pod()
        )),
        _ => Err(format!(
            "{}: Multus' status doesn't say which interface has this address",
            of_pod()
        )),
    }
}

/// The network's name in the spec of a NetworkAttachmentDefinition. If the configuration has no
/// name, Multus uses the definition's.
fn network_of(spec: &Value, definition: &str) -> Result<String, String> {
    let config = spec["config"].as_str().unwrap_or_default();
    if config.is_empty() {
        return Ok(definition.to_owned());
    }
    let config: Value = serde_json::from_str(config).map_err(|error| error.to_string())?;
    let name = config["name"].as_str().filter(|name| !name.is_empty());
    Ok(name.unwrap_or(definition).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn found(status: &Value, ifname: Option<&str>) -> Result<(String, String), String> {
        let annotations = json!({NETWORK_STATUS[0]: status.to_string()});
        let metadata =
            json!({"name": "web", "uid": "u", "resourceVersion": "1", "annotations": annotations});
        let object = json!({"metadata": metadata});
        let pod = Item::read(OtherResource::Pod.into(), object).unwrap();
        let allocation = Allocation {
            ip: "10.40.0.7".parse().unwrap(),
            ip_pool: "p".into(),
            container_id: "c1".into(),
            ifname: ifname.map(str::to_owned),
            pod: "shop/web".into(),
        };
        interface(&pod, &allocation).map(|status| (status.name, status.interface))
    }

    #[test]
    fn the_attachment_is_that_of_the_interface_with_the_address() {
        let status = json!([
            {"name": "tenants", "interface": "eth0", "ips": ["10.1.0.7"], "default": true},
            {"name": "shop/lan", "interface": "net1", "ips": ["10.40.0.7", "fd00::7"]},
            {"name": "shop/dmz", "interface": "net2"},
        ]);
        let lan = Ok(("shop/lan".to_owned(), "net1".to_owned()));
        assert_eq!(found(&status, None), lan);
        assert_eq!(found(&status, Some("net1")), lan);
        for other in [
            json!([]),
            json!([{"name": "shop/lan", "interface": "net1", "ips": ["10.40.0.8"]}]),
        ] {
            let error = found(&other, None).unwrap_err();
            assert!(
                error.starts_with("pod shop/web has no such interface"),
                "{error}"
            );
        }
        assert!(found(&status, Some("net2")).is_err());
        let twice =
            json!([status[1], {"name": "shop/dmz", "interface": "net2", "ips": ["10.40.0.7"]}]);
        assert!(found(&twice, None).unwrap_err().contains("which interface"));
        assert_eq!(found(&twice, Some("net1")), lan);
    }

    #[test]
    fn a_networks_name_is_the_configurations_or_the_definitions() {
        let name = |spec: &Value| network_of(spec, "lan");
        assert_eq!(
            name(&json!({"config": r#"{"name":"macvlan-lan"}"#})).unwrap(),
            "macvlan-lan"
        );
        assert_eq!(
            name(&json!({"config": r#"{"type":"macvlan"}"#})).unwrap(),
            "lan"
        );
        assert_eq!(name(&json!({})).unwrap(), "lan");
        assert!(name(&json!({"config": "{"})).is_err());
    }
}

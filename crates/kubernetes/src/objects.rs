//! `Address` objects and the values of the rules.

use cluster::{AddressKey, Held, Holder};
use serde_json::Map;

use crate::labels::labels;
use crate::names::address_key;
use crate::{Address, AddressSpec};

/// The object of an address that this holder claims.
pub(crate) fn new_address(name: &str, key: &AddressKey, holder: &Holder) -> Address {
    let spec = AddressSpec {
        ip: key.ip.to_string(),
        space: key.space.as_ref().map(ToString::to_string),
        pool: holder.pool.clone(),
        node: holder.node.clone(),
        network: holder.network.clone(),
        container_id: holder.container_id.clone(),
        ifname: holder.ifname.clone(),
        since: holder.since.clone(),
        namespace: holder.namespace.clone(),
        pod: holder.pod.clone(),
    };
    let mut address = Address::new(name, spec);
    address.metadata.labels = Some(labels(holder));
    address
}

/// An address as the rules know it; `None` if the object's name is no address, so that it reserves
/// nothing.
pub(crate) fn held(address: Address) -> Option<Held> {
    let spec = address.spec;
    Some(Held {
        key: address_key(&address.metadata.name?)?,
        id: address.metadata.uid.unwrap_or_default(),
        holder: Some(Holder {
            node: spec.node,
            machine: None,
            network: spec.network,
            container_id: spec.container_id,
            ifname: spec.ifname,
            pool: spec.pool,
            since: spec.since,
            namespace: spec.namespace,
            pod: spec.pod,
            other: Map::new(),
        }),
    })
}

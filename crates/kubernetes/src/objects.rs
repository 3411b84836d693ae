//! Makes an `Address` object of a holder, and reads one as the rules know it.

use cluster::{AddressKey, Held, Holder, Owner};
use serde::Deserialize;

use crate::labels::labels;
use crate::names::address_key;
use crate::pages::Meta;
use crate::{Address, AddressSpec};

/// The object of an address that this holder claims.
pub(crate) fn new_address(name: &str, key: &AddressKey, holder: &Holder) -> Address {
    let owner = holder.owner.as_ref();
    let some = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    let spec = AddressSpec {
        ip: key.ip.to_string(),
        space: key.space.as_ref().map(ToString::to_string),
        pool: holder.pool.clone(),
        node: some(&holder.node),
        owner: owner.map(|owner| owner.name.clone()),
        place: owner.and_then(|owner| i32::try_from(owner.place).ok()),
        network: holder.network.clone(),
        container_id: some(&holder.container_id),
        ifname: holder.ifname.clone(),
        since: holder.since.clone(),
        namespace: holder.namespace.clone(),
        pod: holder.pod.clone(),
    };
    let mut address = Address::new(name, spec);
    address.metadata.labels = Some(labels(holder));
    address
}

/// An object as it is read.
#[derive(Deserialize)]
pub(crate) struct StoredAddress {
    metadata: Meta,
    spec: AddressSpec,
}

/// An address as the rules know it; `None` if the object's name is no address, so that it reserves
/// nothing.
pub(crate) fn held(address: StoredAddress) -> Option<Held> {
    let StoredAddress { metadata, spec } = address;
    let place = usize::try_from(spec.place.unwrap_or_default()).unwrap_or_default();
    let owner = spec.owner.map(|name| Owner { name, place });
    Some(Held {
        key: address_key(&metadata.name)?,
        id: metadata.uid,
        // An address never changes.
        created: metadata.revision.parse().unwrap_or(u64::MAX),
        holder: Some(Holder {
            owner,
            node: spec.node.unwrap_or_default(),
            network: spec.network,
            container_id: spec.container_id.unwrap_or_default(),
            ifname: spec.ifname,
            pool: spec.pool,
            since: spec.since,
            namespace: spec.namespace,
            pod: spec.pod,
            ..Holder::default()
        }),
    })
}

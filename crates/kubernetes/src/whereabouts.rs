//! Reads the addresses that whereabouts has allocated to pods, with the attachment of each.
//!
//! whereabouts keeps the allocations of a range in one `IPPool` object: offset, container ID and
//! pod. The pod has the node's name, and its Multus status has the network's name.

mod attachment;
mod ip_pool;

use std::collections::{BTreeMap, BTreeSet};

use cluster::EngineError;
use serde_json::Value;

use crate::{Client, List, OtherResource};
use attachment::Pods;

pub use attachment::PodAttachment;
pub use ip_pool::Allocation;

/// The allocations of whereabouts.
#[derive(Debug, Default)]
pub struct Given {
    /// Each allocation with its attachment, or the reason why its attachment is unknown.
    pub allocations: Vec<(Allocation, Result<PodAttachment, String>)>,
    /// Messages about unreadable objects, and about reservations without an allocation.
    pub unread: Vec<String>,
}

/// The allocations at one time, for a comparison with a later time.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// Specs of the `IPPool` objects, by namespace and name.
    pools: BTreeMap<String, Value>,
    /// Specs of the `OverlappingRangeIPReservation` objects, by namespace and name.
    reservations: BTreeMap<String, Value>,
}

impl Snapshot {
    /// Reads the current allocations.
    ///
    /// # Errors
    ///
    /// See [`cluster::Kind`].
    pub fn read(client: &mut Client<'_>) -> Result<Self, EngineError> {
        Ok(Self {
            pools: specs(client.list(OtherResource::IpPool, None, false)?),
            reservations: specs(client.list(OtherResource::OverlappingReservation, None, false)?),
        })
    }

    /// The objects that differ from those of an earlier snapshot, by kind, namespace and name.
    pub fn changed_since(&self, earlier: &Self) -> Vec<String> {
        let mut changed = differing("IPPool", &self.pools, &earlier.pools);
        changed.extend(differing(
            "OverlappingRangeIPReservation",
            &self.reservations,
            &earlier.reservations,
        ));
        changed
    }

    /// The allocations with their attachments. Reads each pod.
    ///
    /// # Errors
    ///
    /// See [`cluster::Kind`].
    pub fn given(&self, client: &mut Client<'_>) -> Result<Given, EngineError> {
        let mut given = Given::default();
        let mut pods = Pods::new(client);
        for (name, spec) in &self.pools {
            for allocation in ip_pool::allocations(name, spec) {
                match allocation {
                    Ok(allocation) => {
                        let attachment = pods.attachment(&allocation)?;
                        given.allocations.push((allocation, attachment));
                    }
                    Err(problem) => given.unread.push(problem),
                }
            }
        }
        given
            .allocations
            .sort_by_key(|(allocation, _)| allocation.ip);
        let allocations = given.allocations.iter().map(|(allocation, _)| allocation);
        let reservations = self.reservations.iter();
        let unmatched = ip_pool::without_allocation(allocations, reservations);
        given.unread.extend(unmatched);
        Ok(given)
    }
}

/// The objects of a kind that differ, by kind, namespace and name.
fn differing(
    kind: &str,
    now: &BTreeMap<String, Value>,
    then: &BTreeMap<String, Value>,
) -> Vec<String> {
    let names: BTreeSet<&String> = now.keys().chain(then.keys()).collect();
    let changed = names
        .into_iter()
        .filter(|name| now.get(*name) != then.get(*name));
    changed.map(|name| format!("{kind} {name}")).collect()
}

/// The specs of objects, by namespace and name.
fn specs(list: List) -> BTreeMap<String, Value> {
    let named = list.items.into_iter().map(|item| {
        let name = format!("{}/{}", item.namespace, item.name);
        (name, item.spec)
    });
    named.collect()
}

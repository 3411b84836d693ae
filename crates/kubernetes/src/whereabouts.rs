//! What whereabouts has given to pods, for `ipamctl import --from-whereabouts`.
//!
//! whereabouts has an object `IPPool` for each range: `spec.range` is an address with a prefix length,
//! `spec.allocations` has decimal offsets from that address.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::SystemTime;

use cluster::{Holder, Kind, StoreError, rfc3339};
use ipam::{Interval, IpNet};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ApiResource, GroupVersionKind, ListParams, Object};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Kubernetes;
use crate::owners::has_by_multus;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct IpPool {
    range: String,
    #[serde(default)]
    allocations: BTreeMap<String, Allocation>,
}

/// An address that whereabouts has given to an interface of a pod.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Allocation {
    /// ID of the pod's sandbox.
    #[serde(rename = "id")]
    pub container_id: String,
    /// Namespace and name of the pod: `shop/web-0`.
    #[serde(rename = "podref")]
    pub pod: String,
    /// The interface; missing in whereabouts before 0.7.
    pub ifname: Option<String>,
}

impl Kubernetes<'_> {
    /// The allocations of all `IPPool`s.
    ///
    /// # Errors
    ///
    /// Those of a read; [`Kind::Unable`] for a malformed object.
    pub fn whereabouts(&self) -> Result<Vec<(IpAddr, Allocation)>, StoreError> {
        let kind = GroupVersionKind::gvk("whereabouts.cni.cncf.io", "v1alpha1", "IPPool");
        let kind = ApiResource::from_gvk(&kind);
        let listed = self.read_with(async |kube| {
            let objects: Api<Object<IpPool, Value>> = Api::all_with(kube, &kind);
            objects.list(&ListParams::default()).await
        })?;
        let mut all = Vec::new();
        for IpPool { range, allocations } in listed.items.into_iter().map(|object| object.spec) {
            for (offset, allocation) in allocations {
                let malformed = || format!("IPPool {range}: there is no address {offset}");
                let ip = address(&range, &offset);
                let ip = ip.ok_or_else(|| StoreError::new(Kind::Unable, malformed()))?;
                all.push((ip, allocation));
            }
        }
        Ok(all)
    }

    /// The holder of an allocated address, if its pod has the address by Multus' status; or the reason
    /// why there is none. Network and pool are for the caller to name.
    ///
    /// # Errors
    ///
    /// Those of a read.
    pub fn holder_of(
        &self,
        ip: IpAddr,
        allocation: &Allocation,
    ) -> Result<Result<Holder, &'static str>, StoreError> {
        let (namespace, name) = allocation.pod.split_once('/').unwrap_or_default();
        let pod = async |kube| Api::<Pod>::namespaced(kube, namespace).get_opt(name).await;
        let Some(pod) = self.read_with(pod)? else {
            return Ok(Err("there is no such pod"));
        };
        let annotations = pod.metadata.annotations.unwrap_or_default();
        if !has_by_multus(&annotations, &ip.to_string()) {
            return Ok(Err("the pod doesn't have it by its network-status"));
        }
        let Some(node) = pod.spec.and_then(|spec| spec.node_name) else {
            return Ok(Err("the pod has no node"));
        };
        let Some(ifname) = &allocation.ifname else {
            return Ok(Err("its IPPool doesn't name the interface"));
        };
        Ok(Ok(Holder {
            node,
            container_id: allocation.container_id.clone(),
            ifname: ifname.clone(),
            since: rfc3339(SystemTime::now()),
            namespace: Some(namespace.to_owned()),
            pod: Some(name.to_owned()),
            ..Holder::default()
        }))
    }
}

/// Offsets count from the address of the range, not from the first address of its subnet.
fn address(range: &str, offset: &str) -> Option<IpAddr> {
    let range: IpNet = range.parse().ok()?;
    Interval::new(range.addr(), range.broadcast())?.nth(offset.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_counts_from_the_address_of_the_range() {
        let text = |range, offset| address(range, offset).map(|ip| ip.to_string());
        assert_eq!(text("10.40.0.16/24", "3").as_deref(), Some("10.40.0.19"));
        assert_eq!(text("fd00::10/64", "16").as_deref(), Some("fd00::20"));
        for (range, offset) in [
            ("10.40.0.16/24", "300"),
            ("10.40.0.0/24", "x"),
            ("lan", "1"),
        ] {
            assert_eq!(text(range, offset), None);
        }
    }
}

//! What the cluster knows of the owners of addresses: whether their objects are there, and which
//! addresses pods name.

use std::collections::BTreeMap;

use cluster::{Held, Kind, StoreError, until_answered};
use k8s_openapi::api::core::v1::PodIP;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIGroupList;
use kube::api::{GetParams, ListParams};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::Kubernetes;
use crate::names::is_dns_subdomain;
use crate::pages::Form;

/// Annotation in which Multus writes the addresses of a pod's interfaces.
const NETWORK_STATUS: &str = "k8s.v1.cni.cncf.io/network-status";

/// What is known of an owner's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnedState {
    /// The owner's object is there, or a pod names the address.
    Used,
    /// There is no such object, and no pod names the address.
    Gone,
    /// The reason why that can't be told: the API server doesn't know the owner's kind, or this user
    /// may not read it.
    Unknown(String),
}

/// What a pod says of its addresses.
#[derive(Deserialize)]
struct PodAddresses {
    metadata: PodMeta,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Deserialize)]
struct PodMeta {
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodStatus {
    #[serde(rename = "podIPs")]
    pod_ips: Vec<PodIP>,
}

impl PodAddresses {
    fn names(&self, ip: &str) -> bool {
        let mut own = self.status.pod_ips.iter();
        own.any(|own| own.ip == ip) || has_by_multus(&self.metadata.annotations, ip)
    }
}

/// True if a pod with these annotations has an address by Multus' status.
pub(crate) fn has_by_multus(annotations: &BTreeMap<String, String>, ip: &str) -> bool {
    let status = annotations.get(NETWORK_STATUS);
    status.is_some_and(|status| status.contains(&format!("\"{ip}\"")))
}

impl Kubernetes<'_> {
    /// The states of these addresses, in their order.
    ///
    /// # Errors
    ///
    /// Those of a read, except for those of [`OwnedState::Unknown`].
    pub fn owned_states(&mut self, all: &[Held]) -> Result<Vec<OwnedState>, StoreError> {
        let mut states = Vec::with_capacity(all.len());
        for held in all {
            let holder = held.holder.as_ref();
            let owner = holder.and_then(|holder| holder.owner.as_ref());
            let name = owner.map_or("", |owner| owner.name.as_str());
            states.push(self.state_of_owner(name)?);
        }
        if states.contains(&OwnedState::Gone) {
            until_answered(self, |store| {
                let ips: Vec<String> = all.iter().map(|held| held.key.ip.to_string()).collect();
                let pods = ListParams::default();
                store.each("/api/v1/pods", Form::Whole, pods, |pod: PodAddresses| {
                    for (state, ip) in states.iter_mut().zip(&ips) {
                        if *state == OwnedState::Gone && pod.names(ip) {
                            *state = OwnedState::Used;
                        }
                    }
                })
            })?;
        }
        Ok(states)
    }

    /// Whether the object of `<resource>[.<group>]/<namespace>/<name>[/…]` is there.
    fn state_of_owner(&mut self, owner: &str) -> Result<OwnedState, StoreError> {
        let parts: Vec<&str> = owner.split('/').collect();
        let (resource, namespace, name) = match parts[..] {
            [resource, namespace, name, ..] if parts.iter().all(|part| is_dns_subdomain(part)) => {
                (resource, namespace, name)
            }
            _ => {
                let form = "an owner's object is named RESOURCE[.GROUP]/NAMESPACE/NAME";
                return Ok(OwnedState::Unknown(form.to_owned()));
            }
        };
        let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
        let found = until_answered(self, |store| {
            let Some(path) = store.path_of_group(group)? else {
                return Ok(None);
            };
            let collection = format!("{path}/namespaces/{namespace}/{plural}");
            let object = store.get::<IgnoredAny>(&collection, name, &GetParams::default())?;
            Ok(Some(object.is_some()))
        });
        let unknown_kind = || format!("the API server doesn't know {resource}");
        match found {
            Ok(Some(true)) => Ok(OwnedState::Used),
            Ok(Some(false)) => Ok(OwnedState::Gone),
            Ok(None) => Ok(OwnedState::Unknown(unknown_kind())),
            Err(error) => match error.kind {
                Kind::Refused => Ok(OwnedState::Unknown(error.msg)),
                Kind::Unable => Ok(OwnedState::Unknown(unknown_kind())),
                _ => Err(error),
            },
        }
    }

    /// URL path of the version that the API server prefers for a group, which is empty for the core's;
    /// `None` if it doesn't know the group.
    fn path_of_group(&self, group: &str) -> Result<Option<String>, StoreError> {
        if group.is_empty() {
            return Ok(Some("/api/v1".to_owned()));
        }
        let groups = self.get::<APIGroupList>("", "apis", &GetParams::default())?;
        let mut groups = groups.into_iter().flat_map(|all| all.groups);
        let known = groups.find(|known| known.name == group);
        let preferred = known.and_then(|known| known.preferred_version);
        Ok(preferred.map(|preferred| format!("/apis/{group}/{}", preferred.version)))
    }
}

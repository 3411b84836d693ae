//! The store's six verbs on `Address` objects, and the lists for tools. The creation of an object is a
//! claim, its deletion a release, by the UID that was read. That an object is missing, exists, or is
//! another creation, counts only if the API server's answer names it.

use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;

use cluster::client::Access;
use cluster::{
    AddressKey, Among, Claim, Held, Holder, Inventory, Kind, ListedPool, Release, Selection, Store,
    StoreError, TimeLimit,
};
use cni::Object;
use either::Either;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DeleteParams, GetParams, ListParams, PostParams, Preconditions};
use kube::core::Request;
use kube::{Resource, ResourceExt};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use crate::failure::{is_about, is_missing};
use crate::labels;
use crate::names::{address_key, object_name};
use crate::objects::{StoredAddress, held, new_address};
use crate::pages::{Form, Labelled, Meta, Row};
use crate::{Address, Kubernetes, Pool};

/// A `Pool` with its spec as it is written.
#[derive(Deserialize)]
struct RawPool {
    metadata: Meta,
    spec: Object,
}

impl Kubernetes<'_> {
    /// Names of the cluster's `Node` objects.
    ///
    /// # Errors
    ///
    /// Those of a read.
    pub fn nodes(&self) -> Result<BTreeSet<String>, StoreError> {
        let (path, all) = (Node::url_path(&(), None), ListParams::default());
        let mut nodes = BTreeSet::new();
        self.each(&path, Form::Metadata, all, |Labelled { metadata }| {
            nodes.insert(metadata.name);
        })?;
        Ok(nodes)
    }

    /// Reads an object; `None` if there is none of this name.
    pub(crate) fn get<T: DeserializeOwned + 'static>(
        &self,
        collection: &str,
        name: &str,
        parameters: &GetParams,
    ) -> Result<Option<T>, StoreError> {
        let request = Request::new(collection).get(name, parameters);
        let read = async |kube: kube::Client| {
            let request = request.map_err(kube::Error::BuildRequest)?;
            kube.request(request).await
        };
        match self.send(Access::Read, read)? {
            Ok(object) => Ok(Some(object)),
            Err(error) if is_missing(&error, name) => Ok(None),
            Err(error) => Err(self.failure(&error, Access::Read)),
        }
    }

    /// Lists the names of addresses.
    fn names_in(&self, list: ListParams) -> Result<Vec<AddressKey>, StoreError> {
        let mut keys = Vec::new();
        self.each(&addresses(), Form::Names, list, |row: Row| {
            let name = row.cells.first().and_then(|cell| cell.as_str());
            keys.extend(name.and_then(address_key));
        })?;
        Ok(keys)
    }
}

impl Store for Kubernetes<'_> {
    fn name(&self) -> &'static str {
        "Kubernetes"
    }

    fn path_of_pool(&self, name: &str) -> String {
        format!("pools.ipam-delegated.io/{name}")
    }

    fn path_of_address(&self, key: &AddressKey) -> String {
        let name = object_name(key).unwrap_or_else(|_| key.to_string());
        format!("addresses.ipam-delegated.io/{name}")
    }

    fn time(&self) -> &TimeLimit<'_> {
        &self.time
    }

    fn pool(&mut self, name: &str) -> Result<Option<Object>, StoreError> {
        let pool = self.get::<RawPool>(&pools(), name, &GetParams::default())?;
        Ok(pool.map(|pool| pool.spec))
    }

    /// An owner may get a second address, of a later revision: the API server can't refuse it.
    fn claim(&mut self, key: &AddressKey, holder: &Holder, _: u64) -> Result<Claim, StoreError> {
        let name = name_of(key)?;
        let address = new_address(&name, key, holder);
        let create = async |kube| {
            let addresses: Api<Address> = Api::all(kube);
            addresses.create(&PostParams::default(), &address).await
        };
        match self.send(Access::Write, create)? {
            Ok(address) => Ok(Claim::Created {
                id: address.metadata.uid.unwrap_or_default(),
            }),
            Err(error) if is_about(&error, "AlreadyExists", &name) => Ok(Claim::Taken),
            Err(error) => Err(self.failure(&error, Access::Write)),
        }
    }

    fn read(&mut self, keys: &[AddressKey]) -> Result<Vec<Held>, StoreError> {
        let mut all = Vec::new();
        for key in keys {
            let address =
                self.get::<StoredAddress>(&addresses(), &name_of(key)?, &GetParams::default())?;
            all.extend(address.and_then(held));
        }
        Ok(all)
    }

    fn release(&mut self, held: &Held) -> Result<Release, StoreError> {
        let name = name_of(&held.key)?;
        let this_creation = DeleteParams::default().preconditions(Preconditions {
            uid: Some(held.id.clone()),
            resource_version: None,
        });
        let delete = async |kube| {
            let addresses: Api<Address> = Api::all(kube);
            addresses.delete(&name, &this_creation).await
        };
        match self.send(Access::Write, delete)? {
            Ok(Either::Right(_)) => Ok(Release::Released),
            // It is deleted only when its finalizers have gone.
            Ok(Either::Left(address)) => {
                let place = self.path_of_address(&held.key);
                let finalizers = address.finalizers();
                let why = format!("{place} is kept by its finalizers {finalizers:?}");
                Err(StoreError::new(Kind::Unable, why))
            }
            Err(error) if is_missing(&error, &name) => Ok(Release::Gone),
            // It is another creation.
            Err(error) if is_about(&error, "Conflict", &name) => Ok(Release::Gone),
            Err(error) => Err(self.failure(&error, Access::Write)),
        }
    }

    /// Objects with the labels of the selection, without those that carry the label of a valid
    /// attachment.
    fn list(&mut self, selection: &Selection<'_>) -> Result<Vec<AddressKey>, StoreError> {
        let mut valid_labels = HashSet::new();
        let selector = match *selection {
            Selection::Node(node) => labels::selector(&[("node", node)]),
            Selection::Attachment(own) => {
                let node = &own.node.name;
                let label = labels::attachment_of(node, own.network, own.attachment);
                labels::selector(&[("node", node), ("attachment", &label)])
            }
            Selection::Stale {
                node,
                network,
                valid,
            } => {
                let label = |attachment| labels::attachment_of(node, network, attachment);
                valid_labels.extend(valid.iter().map(label));
                labels::selector(&[("node", node), ("network", network)])
            }
            Selection::Owner(hash) => labels::selector(&[("owner", hash)]),
        };
        let list = ListParams::default().labels(&selector);
        let mut keys = Vec::new();
        let select = |Labelled { metadata }| {
            let label = metadata.labels.attachment;
            if label.is_none_or(|label| !valid_labels.contains(&label)) {
                keys.extend(address_key(&metadata.name));
            }
        };
        self.each(&addresses(), Form::Metadata, list, select)?;
        Ok(keys)
    }

    /// Reads some one after the other; else lists by the label `pool`, or the names of all
    /// addresses: the label doesn't say which addresses a pool has today.
    fn taken(&mut self, pool: &ipam::Pool, among: Among<'_>) -> Result<Vec<IpAddr>, StoreError> {
        let list = match among {
            Among::Some(ips) => {
                let mut taken = Vec::new();
                for ip in ips {
                    let name = name_of(&AddressKey::of(pool, *ip))?;
                    // The claim decides, so the API server's cache is enough.
                    let cached = GetParams::at("0");
                    let read: Option<IgnoredAny> = self.get(&addresses(), &name, &cached)?;
                    if read.is_none() {
                        break;
                    }
                    taken.push(*ip);
                }
                return Ok(taken);
            }
            // The list of all is the one that must be right.
            Among::Named(name) => ListParams::default()
                .labels(&labels::selector(&[("pool", name)]))
                .match_any(),
            Among::All => ListParams::default(),
        };
        let keys = self.names_in(list)?.into_iter();
        let own = keys.filter(|key| key.space == pool.space);
        let ips = own.map(|key| key.ip);
        Ok(ips.filter(|ip| pool.ranges.contains(*ip)).collect())
    }
}

impl Inventory for Kubernetes<'_> {
    fn pools(&mut self) -> Result<Vec<ListedPool>, StoreError> {
        let mut named = Vec::new();
        let all = ListParams::default();
        self.each(&pools(), Form::Whole, all, |pool: RawPool| {
            named.push((pool.metadata.name, Ok(pool.spec)));
        })?;
        Ok(named)
    }

    fn names(&mut self) -> Result<Vec<AddressKey>, StoreError> {
        self.names_in(ListParams::default())
    }

    fn addresses(&mut self, each: &mut dyn FnMut(Held)) -> Result<(), StoreError> {
        let all = ListParams::default();
        self.each(&addresses(), Form::Whole, all, |address: StoredAddress| {
            held(address).into_iter().for_each(&mut *each);
        })
    }
}

/// URL path of the pools.
fn pools() -> String {
    Pool::url_path(&(), None)
}

/// URL path of the addresses.
fn addresses() -> String {
    Address::url_path(&(), None)
}

fn name_of(key: &AddressKey) -> Result<String, StoreError> {
    object_name(key).map_err(|why| StoreError::new(Kind::Settings, why))
}

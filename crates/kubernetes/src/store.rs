//! The six verbs, and the lists for tools.

use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;
use std::path::Path;

use cluster::{
    AddressKey, Among, Claim, DEFAULT_TIMEOUT, Held, Holder, Inventory, Kind, PoolAddresses,
    Release, Selection, Store, StoreError, TimeLimit,
};
use cni::Object;
use either::Either;
use k8s_openapi::api::core::v1::Node;
use kube::api::{
    Api, DeleteParams, GetParams, ListParams, PartialObjectMeta, PostParams, Preconditions,
};
use kube::core::{ObjectList, ObjectMeta, Request};
use kube::{Resource, ResourceExt};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use crate::client::Client;
use crate::failure::{Access, exists, is_another, is_missing};
use crate::labels;
use crate::names::{address_key, object_name};
use crate::objects::{held, new_address};
use crate::{Address, Pool};

/// Most objects in an answer to a list that may be long.
const PAGE: u32 = 5000;

/// Pools and addresses in Kubernetes' API.
pub struct Kubernetes<'a> {
    client: Client,
    time: TimeLimit<'a>,
}

/// A `Pool` with its spec as it is written.
#[derive(Deserialize)]
struct RawPool {
    metadata: ObjectMeta,
    spec: Object,
}

impl<'a> Kubernetes<'a> {
    /// The store behind this client.
    pub(crate) fn new(client: Client, time: TimeLimit<'a>) -> Self {
        Self { client, time }
    }

    /// The store behind a person's kubeconfig, which may execute a program for a token.
    ///
    /// # Errors
    ///
    /// [`Kind::Settings`], naming the file.
    pub fn of_person(kubeconfig: &Path) -> Result<Self, StoreError> {
        let client = Client::read(kubeconfig, true)?;
        Ok(Self::new(client, TimeLimit::new(DEFAULT_TIMEOUT, None)))
    }

    /// Names of the cluster's `Node` objects.
    ///
    /// # Errors
    ///
    /// Those of a read.
    pub fn nodes(&self) -> Result<BTreeSet<String>, StoreError> {
        let nodes = self.read_with(|kube| async move {
            let nodes: Api<Node> = Api::all(kube);
            nodes.list_metadata(&ListParams::default()).await
        })?;
        Ok(nodes.items.iter().map(ResourceExt::name_any).collect())
    }

    /// Sends requests that change nothing.
    pub(crate) fn read_with<T, F>(
        &self,
        requests: impl FnOnce(kube::Client) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = kube::Result<T>>,
    {
        let answer = self.client.send(&self.time, Access::Read, requests)?;
        answer.map_err(|error| self.client.failure(&error, Access::Read))
    }

    /// Reads an object; `None` if there is none of this name.
    fn get<T: DeserializeOwned + 'static>(
        &self,
        collection: &str,
        name: &str,
        parameters: &GetParams,
    ) -> Result<Option<T>, StoreError> {
        let request = Request::new(collection).get(name, parameters);
        let answer = self
            .client
            .send(&self.time, Access::Read, |kube| async move {
                kube.request(request.map_err(kube::Error::BuildRequest)?)
                    .await
            })?;
        match answer {
            Ok(object) => Ok(Some(object)),
            Err(error) if is_missing(&error, name) => Ok(None),
            Err(error) => Err(self.client.failure(&error, Access::Read)),
        }
    }

    /// Lists the names of addresses, as of one moment. `is_wanted` is asked with the metadata.
    fn keys(
        &self,
        list: ListParams,
        is_wanted: impl Fn(&PartialObjectMeta<Address>) -> bool,
    ) -> Result<Vec<AddressKey>, StoreError> {
        let key = |object: PartialObjectMeta<Address>| match is_wanted(&object) {
            true => address_key(&object.name_any()),
            false => None,
        };
        let request = |kube, page: ListParams| async move {
            Api::<Address>::all(kube).list_metadata(&page).await
        };
        self.all_pages(list, request, key)
    }

    /// Lists objects, page by page if the list has a limit, and keeps what `keep` makes of each.
    fn all_pages<T: Clone, K, F>(
        &self,
        mut list: ListParams,
        request: impl Fn(kube::Client, ListParams) -> F,
        keep: impl Fn(T) -> Option<K>,
    ) -> Result<Vec<K>, StoreError>
    where
        F: Future<Output = kube::Result<ObjectList<T>>>,
    {
        let mut kept = Vec::new();
        loop {
            self.time.start_request();
            let page = list.clone();
            let answer = self.read_with(|kube| request(kube, page))?;
            kept.extend(answer.items.into_iter().filter_map(&keep));
            match answer.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => list.continue_token = Some(token),
                None => return Ok(kept),
            }
        }
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

    fn claim(&mut self, key: &AddressKey, holder: &Holder) -> Result<Claim, StoreError> {
        let name = name_of(key)?;
        let address = new_address(&name, key, holder);
        let answer = self
            .client
            .send(&self.time, Access::Write, |kube| async move {
                Api::<Address>::all(kube)
                    .create(&PostParams::default(), &address)
                    .await
            })?;
        match answer {
            Ok(address) => Ok(Claim::Created {
                id: address.metadata.uid.unwrap_or_default(),
            }),
            Err(error) if exists(&error, &name) => Ok(Claim::Taken),
            Err(error) => Err(self.client.failure(&error, Access::Write)),
        }
    }

    fn read(&mut self, keys: &[AddressKey]) -> Result<Vec<Held>, StoreError> {
        let mut all = Vec::new();
        for key in keys {
            let address =
                self.get::<Address>(&addresses(), &name_of(key)?, &GetParams::default())?;
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
        let answer = self.client.send(&self.time, Access::Write, |kube| {
            let name = name.clone();
            async move {
                Api::<Address>::all(kube)
                    .delete(&name, &this_creation)
                    .await
            }
        })?;
        match answer {
            Ok(Either::Right(_)) => Ok(Release::Released),
            // It is deleted only when its finalizers have gone.
            Ok(Either::Left(address)) => Err(StoreError::new(
                Kind::Unable,
                format!(
                    "{} is kept by its finalizers {:?}",
                    self.path_of_address(&held.key),
                    address.finalizers()
                ),
            )),
            Err(error) if is_missing(&error, &name) || is_another(&error, &name) => {
                Ok(Release::Gone)
            }
            Err(error) => Err(self.client.failure(&error, Access::Write)),
        }
    }

    /// Objects with the labels of the selection, without those that carry the label of a valid
    /// attachment.
    fn list(&mut self, selection: &Selection<'_>) -> Result<Vec<AddressKey>, StoreError> {
        let mut selector = labels::selector("node", selection.node());
        let mut valid_labels = HashSet::new();
        match selection {
            Selection::Node(_) => {}
            Selection::Attachment {
                node,
                network,
                attachment,
            } => {
                let label = labels::attachment_of(node, network, attachment);
                selector += &format!(",{}", labels::selector("attachment", &label));
            }
            Selection::Stale {
                node,
                network,
                valid,
            } => {
                let label = |attachment| labels::attachment_of(node, network, attachment);
                valid_labels.extend(valid.iter().map(label));
                selector += &format!(",{}", labels::selector("network", network));
            }
        }
        // API servers before 1.34 answer a list with a limit from etcd instead of their cache.
        let list = ListParams::default().labels(&selector);
        self.keys(list, |object| {
            !labels::has_attachment(object, &valid_labels)
        })
    }

    /// Reads some one after the other; else lists by the label `pool`, or the names of all
    /// addresses: the label doesn't say which addresses a pool has today.
    fn taken(&mut self, pool: &PoolAddresses<'_>) -> Result<Vec<IpAddr>, StoreError> {
        let mut list = ListParams::default().limit(PAGE);
        match pool.among {
            Among::Some(ips) => {
                let mut taken = Vec::new();
                for ip in ips {
                    let name = name_of(&pool.key(*ip))?;
                    // The claim decides, so the API server's cache is enough.
                    let cached = GetParams::at("0");
                    if self
                        .get::<IgnoredAny>(&addresses(), &name, &cached)?
                        .is_none()
                    {
                        break;
                    }
                    taken.push(*ip);
                }
                return Ok(taken);
            }
            Among::Named(name) => list = list.labels(&labels::selector("pool", name)),
            Among::All => {}
        }
        let keys = self.keys(list, |_| true)?;
        let is_of_pool =
            |key: &&AddressKey| key.space.as_ref() == pool.space && pool.ranges.contains(key.ip);
        Ok(keys.iter().filter(is_of_pool).map(|key| key.ip).collect())
    }
}

impl Inventory for Kubernetes<'_> {
    fn pools(&mut self) -> Result<Vec<(String, Object)>, StoreError> {
        #[derive(Deserialize)]
        struct RawPools {
            items: Vec<RawPool>,
        }
        let request = Request::new(pools()).list(&ListParams::default());
        let listed: RawPools = self.read_with(|kube| async move {
            kube.request(request.map_err(kube::Error::BuildRequest)?)
                .await
        })?;
        let named = listed.items.into_iter();
        Ok(named
            .map(|pool| (pool.metadata.name.unwrap_or_default(), pool.spec))
            .collect())
    }

    fn addresses(&mut self) -> Result<Vec<Held>, StoreError> {
        let request =
            |kube, page: ListParams| async move { Api::<Address>::all(kube).list(&page).await };
        self.all_pages(ListParams::default().limit(PAGE), request, held)
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

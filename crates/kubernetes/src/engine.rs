//! The cluster's engine on Kubernetes' API: each object of the rules is one object of the API.

mod attachments;
mod commit;
mod explanation;
mod guards;
mod import;
mod marks;
mod overlaps;
mod reads;
mod restore_notes;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::time::Duration;

use cluster::{
    Change, EngineError, Found, Group, Key, Kind as Failure, Moment, Outcome, Read, Stored,
    TimeLimit,
};
use cni::{Args, Call, Cancellation, Environment};
use ipam::Interval;
use state_files::boot_id;

use crate::held_index::HeldIndex;
use crate::names::object_of;
use crate::objects::{self, Pod, held, is_label_value, label, stored};
use crate::view::View;
use crate::{Client, Cluster, Item, Resource};
use explanation::Taken;
pub(crate) use restore_notes::RESTORE;

/// After this number of successive creations of taken addresses that the view showed as free, the
/// pool's addresses are listed.
const MOST_MISSES: u32 = 8;

/// The engine of one call. It connects with the first request.
pub struct Engine<'a> {
    /// The client.
    pub client: Client<'a>,
    node: &'a str,
    pod: Pod,
    index: Option<HeldIndex>,
    /// The node's registration, if this call has just read it, for a following release.
    registration: Option<Item>,
    /// See [`Self::last_restore`]; `None` before the registration was read.
    last_restore: Option<String>,
    view: View,
    /// Addresses that this call has noted in the view and has not tried to create, by pool.
    asked_for: HashSet<(String, IpAddr)>,
    /// The blocks of a pool. They are listed once in a call.
    blocks: HashMap<String, BTreeSet<Key>>,
    /// The [`Item::spec_id`] of each pool, when the pools were listed.
    listed_pools: HashMap<String, String>,
    misses: u32,
    /// The address that the last change could not create.
    taken: Option<Taken>,
    moment: Option<Moment>,
}

impl<'a> Engine<'a> {
    /// The engine of a plugin's call.
    pub fn new(cluster: &'a Cluster, call: &Call<'a>) -> Self {
        let mut engine = Self::of(cluster, call.environment, call.cancellation);
        // The pod is only for people: unreadable arguments name no pod.
        let arguments = Args::parse(&call.environment.text("CNI_ARGS")).unwrap_or_default();
        let value = |key: &str| {
            let found = arguments.get(key).filter(|value| !value.is_empty());
            found.map(str::to_owned)
        };
        engine.set_pod(value("K8S_POD_NAMESPACE"), value("K8S_POD_NAME"));
        engine
    }

    /// Sets the pod for the addresses that are created from now on.
    pub fn set_pod(&mut self, namespace: Option<String>, name: Option<String>) {
        self.pod = Pod { namespace, name };
    }

    /// The engine of a tool.
    pub fn of(
        cluster: &'a Cluster,
        environment: &'a Environment,
        cancellation: Option<&'a dyn Cancellation>,
    ) -> Self {
        let client = Client::new(&cluster.settings, cancellation).with_environment(environment);
        let node = &cluster.node;
        // Without a node, nothing is cached.
        let (index, view) = match node.name.as_str() {
            "" => (None, View::none()),
            name => (
                Some(HeldIndex::open(
                    &node.state_dir,
                    name,
                    boot_id(environment).as_deref(),
                )),
                View::open(
                    &node.cache_dir,
                    &cluster.settings.kubeconfig,
                    node.timeout / 4,
                ),
            ),
        };
        Self {
            index,
            registration: None,
            last_restore: None,
            view,
            client,
            node: &node.name,
            pod: Pod::default(),
            asked_for: HashSet::new(),
            blocks: HashMap::new(),
            listed_pools: HashMap::new(),
            misses: 0,
            taken: None,
            moment: None,
        }
    }

    /// The object of a key, with its value; `None` if it doesn't exist.
    fn object(&mut self, key: &Key) -> Result<Option<(Item, Stored)>, EngineError> {
        let Some((kind, name)) = object_of(key) else {
            return Ok(None);
        };
        let item = self.client.get(kind, &name)?;
        Ok(item.and_then(|item| {
            let mut found = stored(kind, &item);
            if let Key::Held(wanted) = key {
                found.key = Key::Held(held(&item).filter(|held| held == wanted)?);
            }
            Some((item, found))
        }))
    }

    /// The objects of a kind with this label.
    fn labelled(
        &mut self,
        kind: Resource,
        with: Option<(&str, &str)>,
        metadata_only: bool,
    ) -> Result<Vec<Item>, EngineError> {
        // A value that can't be a label has no label, so all objects are listed.
        let with = with.filter(|(_, value)| is_label_value(value));
        let selector = with.map(|(name, value)| format!("{}={value}", label(name)));
        let list = self.client.list(kind, selector.as_deref(), metadata_only)?;
        self.saw(list.revision)?;
        Ok(list.items)
    }

    /// Notes the latest revision of the API server, from a list or a change.
    fn saw(&mut self, revision: i64) -> Result<(), EngineError> {
        let cluster = self.client.cluster_id()?;
        let latest = self
            .moment
            .map_or(revision, |seen| seen.revision.max(revision));
        self.moment = Some(Moment {
            cluster,
            revision: latest,
        });
        Ok(())
    }

    /// The objects of a pool, or of all pools.
    fn of_pool(
        &mut self,
        kind: Resource,
        pool: Option<&str>,
        with_values: bool,
    ) -> Result<Vec<Stored>, EngineError> {
        let with = pool.map(|pool| ("pool", pool));
        let items = self.labelled(kind, with, !with_values)?;
        let mut all: Vec<Stored> = items.iter().map(|item| stored(kind, item)).collect();
        all.retain(|stored| match &stored.key {
            Key::Address(of, _) | Key::Block(of, _) | Key::StickyKey(of, _) => {
                pool.is_none_or(|pool| of == pool)
            }
            _ => pool.is_none(),
        });
        Ok(all)
    }

    /// The names of a pool's addresses, for a search. The list may be from another process.
    fn addresses(&mut self, pool: &str) -> Result<Vec<Stored>, EngineError> {
        let listed = self.beside_view(|engine, view, time| {
            view.list(pool, time, || {
                let all = engine.of_pool(Resource::Address, Some(pool), false)?;
                let ip = |stored: &Stored| match stored.key {
                    Key::Address(_, ip) => Some(ip),
                    _ => None,
                };
                Ok(all.iter().filter_map(ip).collect())
            })
        });
        self.misses = 0;
        let stored = |ip| Stored {
            key: Key::Address(pool.to_owned(), ip),
            value: Vec::new(),
            revision: 0,
        };
        Ok(listed?.into_iter().map(stored).collect())
    }

    /// Calls `f` with the view, and with the time for which it may wait for another process. The
    /// other half of the time is for this process's own requests, if the other one is stopped.
    fn beside_view<T>(&mut self, f: impl FnOnce(&mut Self, &View, Duration) -> T) -> T {
        let time = self.client.time.remaining() / 2;
        let view = std::mem::replace(&mut self.view, View::none());
        let done = f(self, &view, time);
        self.view = view;
        done
    }

    /// True if the view shows an address as free. After many wrong answers, the view is replaced.
    fn seems_free(&mut self, pool: &str, ip: IpAddr) -> Result<bool, EngineError> {
        if self.misses >= MOST_MISSES {
            self.addresses(pool)?;
        }
        Ok(!self.view.has(pool, ip))
    }
}

impl Drop for Engine<'_> {
    /// Addresses that were noted and not requested are free in the view again.
    fn drop(&mut self) {
        for (pool, ip) in &self.asked_for {
            self.view.note(pool, *ip, false);
        }
    }
}

impl cluster::Engine for Engine<'_> {
    fn name(&self) -> &'static str {
        "kubernetes"
    }

    fn path(&self, key: &Key) -> String {
        match (object_of(key), key) {
            (Some((kind, name)), _) => objects::path(kind, &name),
            (None, Key::Foreign(path)) => path.clone(),
            (None, other) => format!("{other:?}"),
        }
    }

    fn time(&mut self) -> &mut TimeLimit {
        &mut self.client.time
    }

    fn moment(&self) -> Option<Moment> {
        self.moment
    }

    /// The ID depends on the kubeconfig's URL and authorities.
    fn has_one_id(&self) -> bool {
        false
    }

    fn remembers(&self) -> bool {
        true
    }

    fn asks_for(&mut self, pool: &str, ip: IpAddr) -> bool {
        let is_ours = self.view.claim(pool, ip);
        if is_ours {
            self.asked_for.insert((pool.to_owned(), ip));
        }
        is_ours
    }

    fn seen_reserved(&mut self, pool: &str) -> Option<Vec<Interval>> {
        (self.misses < MOST_MISSES).then(|| self.view.reserved(pool))?
    }

    fn read(&mut self, reads: &[Read]) -> Result<Vec<Found>, EngineError> {
        reads.iter().map(|read| self.answer(read)).collect()
    }

    fn list(&mut self, group: &Group, with_values: bool) -> Result<Vec<Stored>, EngineError> {
        let all = match group {
            // To find a free address. If many callers find a pool full, one requests the list.
            Group::Addresses(Some(pool)) if !with_values => self.addresses(pool)?,
            Group::Marks => {
                let marks = self.marks()?;
                if marks.is_empty() {
                    self.sweep_or_leave()?;
                }
                marks
            }
            Group::Pools => {
                let pools = self.labelled(Resource::Pool, None, false)?;
                let spec_ids = pools.iter().map(|pool| (pool.name.clone(), pool.spec_id()));
                self.listed_pools = spec_ids.collect();
                let stored = |pool| stored(Resource::Pool, pool);
                pools.iter().map(stored).collect()
            }
            _ => self.group(group, with_values)?,
        };
        for stored in &all {
            if let Key::Foreign(key) = &stored.key {
                tracing::warn!(key, "this object isn't ours; it is left alone");
            }
        }
        Ok(all)
    }

    fn commit(&mut self, change: &Change) -> Result<Outcome, EngineError> {
        self.taken = None;
        let done = match change.dry_run {
            true => self.try_out(change).map(|()| false)?,
            false => self.make(change)?,
        };
        let found = match done {
            true => Vec::new(),
            false => self.explain(change)?,
        };
        Ok(Outcome {
            done,
            resent: false,
            found,
        })
    }
}

/// The error for a change whose objects can't be written to this engine.
fn unable(msg: impl Into<String>) -> EngineError {
    EngineError::new(Failure::Unable, msg)
}

//! A store in memory, with faults: lost requests, lost answers, late changes, an older state.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use cluster::{
    AddressKey, Among, Claim, Held, Holder, Kind, Release, Selection, Store, StoreError, TimeLimit,
};
use cni::{Cancellation, Object};
use fastrand::Rng;
use ipam::Pool;

/// Faults, each in percent of the requests.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    /// The request doesn't arrive.
    pub(crate) lost_requests: u8,
    /// The change is made, and its answer doesn't arrive.
    pub(crate) lost_answers: u8,
    /// The change is made only before the next one, and its answer doesn't arrive.
    pub(crate) late: u8,
    /// The engine can't list a pool.
    pub(crate) unable_lists: u8,
    /// A look at some addresses is answered by a cache that knows no release.
    pub(crate) old_looks: u8,
}

/// A change that was sent.
#[derive(Clone, Debug)]
enum Change {
    /// The address, its holder, the claim's identity, and the latest known revision of its owner.
    Claim(AddressKey, Holder, String, u64),
    Release(Held),
}

/// Pools, addresses, and changes that are still on their way.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pools: BTreeMap<String, Object>,
    addresses: BTreeMap<AddressKey, Held>,
    late: Vec<Change>,
    claims: u64,
    revision: u64,
    /// True if a claim is refused when its owner has a later address, as in etcd.
    pub(crate) refuses_second: bool,
}

/// The cluster that all stores share.
#[derive(Default)]
pub(crate) struct Cluster(Mutex<State>);

impl Cluster {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Defines a pool.
    pub(crate) fn define(&self, name: &str, definition: &str) {
        let definition = serde_json::from_str(definition).unwrap();
        self.lock().pools.insert(name.to_owned(), definition);
    }

    pub(crate) fn addresses(&self) -> Vec<Held> {
        self.lock().addresses.values().cloned().collect()
    }

    /// Deletes an address, as no rule does.
    pub(crate) fn lose(&self, key: &AddressKey) {
        self.lock().addresses.remove(key);
    }

    /// Makes the late changes.
    pub(crate) fn settle(&self) {
        self.lock().settle();
    }

    /// A store on a node that shares these addresses.
    pub(crate) fn store(&self, faults: Faults, seed: u64) -> MemoryStore<'_> {
        MemoryStore {
            cluster: self,
            faults,
            random: Rng::with_seed(seed),
            time: TimeLimit::new(Duration::from_secs(60), None),
        }
    }

    /// The state now.
    pub(crate) fn snapshot(&self) -> State {
        self.lock().clone()
    }

    /// Restores an older state. Creations after it get new identities, as in every engine.
    pub(crate) fn restore(&self, older: State) {
        let mut state = self.lock();
        let claims = state.claims;
        *state = older;
        state.claims = claims;
    }
}

impl State {
    fn settle(&mut self) {
        for change in std::mem::take(&mut self.late) {
            self.apply(&change);
        }
    }

    /// True if the change was made.
    fn apply(&mut self, change: &Change) -> bool {
        match change {
            Change::Claim(key, holder, id, latest) => {
                let is_later = |held: &Held| held.is_of(holder) && held.created > *latest;
                let is_second = self.refuses_second
                    && holder.owner.is_some()
                    && self.addresses.values().any(is_later);
                let is_free = !self.addresses.contains_key(key) && !is_second;
                if is_free {
                    self.revision += 1;
                    let held = Held {
                        key: key.clone(),
                        holder: Some(holder.clone()),
                        id: id.clone(),
                        created: self.revision,
                    };
                    self.addresses.insert(key.clone(), held);
                }
                is_free
            }
            Change::Release(held) => {
                let now = self.addresses.get(&held.key);
                let is_there = now.is_some_and(|now| now.id == held.id);
                if is_there {
                    self.addresses.remove(&held.key);
                }
                is_there
            }
        }
    }
}

/// The store of one call.
pub(crate) struct MemoryStore<'a> {
    cluster: &'a Cluster,
    faults: Faults,
    random: Rng,
    time: TimeLimit<'a>,
}

impl<'a> MemoryStore<'a> {
    /// The same store with this time limit of a call.
    pub(crate) fn within(self, timeout: Duration) -> Self {
        Self {
            time: TimeLimit::new(timeout, None),
            ..self
        }
    }

    /// The same store for a call that may be cancelled.
    pub(crate) fn cancelled_by(self, cancellation: &'a dyn Cancellation) -> Self {
        Self {
            time: TimeLimit::new(Duration::from_secs(60), Some(cancellation)),
            ..self
        }
    }

    fn happens(&mut self, percent: u8) -> bool {
        self.random.u8(..100) < percent
    }

    /// The state, unless the request is lost.
    fn reach(&mut self) -> Result<MutexGuard<'a, State>, StoreError> {
        match self.happens(self.faults.lost_requests) {
            true => Err(StoreError::new(Kind::Unreachable, "the request is lost")),
            false => Ok(self.cluster.lock()),
        }
    }

    /// Makes a change, now or late.
    fn change(&mut self, change: Change) -> Result<bool, StoreError> {
        let lost = || Err(StoreError::new(Kind::Lost, "the answer is lost"));
        let mut state = self.reach()?;
        state.settle();
        if self.happens(self.faults.late) {
            state.late.push(change);
            return lost();
        }
        let is_made = state.apply(&change);
        match self.happens(self.faults.lost_answers) {
            true => lost(),
            false => Ok(is_made),
        }
    }
}

impl Store for MemoryStore<'_> {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn path_of_pool(&self, name: &str) -> String {
        format!("memory:pools/{name}")
    }

    fn path_of_address(&self, key: &AddressKey) -> String {
        format!("memory:addresses/{key}")
    }

    fn time(&self) -> &TimeLimit<'_> {
        &self.time
    }

    fn pool(&mut self, name: &str) -> Result<Option<Object>, StoreError> {
        Ok(self.reach()?.pools.get(name).cloned())
    }

    fn claim(
        &mut self,
        key: &AddressKey,
        holder: &Holder,
        latest: u64,
    ) -> Result<Claim, StoreError> {
        let id = {
            let mut state = self.cluster.lock();
            state.claims += 1;
            state.claims.to_string()
        };
        let claim = Change::Claim(key.clone(), holder.clone(), id.clone(), latest);
        Ok(match self.change(claim)? {
            true => Claim::Created { id },
            false => Claim::Taken,
        })
    }

    fn read(&mut self, keys: &[AddressKey]) -> Result<Vec<Held>, StoreError> {
        let state = self.reach()?;
        let held = keys.iter().filter_map(|key| state.addresses.get(key));
        Ok(held.cloned().collect())
    }

    fn release(&mut self, held: &Held) -> Result<Release, StoreError> {
        Ok(match self.change(Change::Release(held.clone()))? {
            true => Release::Released,
            false => Release::Gone,
        })
    }

    fn list(&mut self, selection: &Selection<'_>) -> Result<Vec<AddressKey>, StoreError> {
        let state = self.reach()?;
        let is_selected = |holder: &Holder| match selection {
            Selection::Owner(hash) => holder.owner_hash().as_deref() == Some(*hash),
            Selection::Attachment(own) => holder.node == own.node.name,
            Selection::Node(node) | Selection::Stale { node, .. } => holder.node == *node,
        };
        let all = state.addresses.values();
        let selected = all.filter(|held| held.holder.as_ref().is_some_and(is_selected));
        Ok(selected.map(|held| held.key.clone()).collect())
    }

    fn taken(&mut self, pool: &Pool, among: Among<'_>) -> Result<Vec<IpAddr>, StoreError> {
        if let Among::Some(ips) = among {
            if self.happens(self.faults.old_looks) {
                return Ok(ips.to_vec());
            }
        } else if self.happens(self.faults.unable_lists) {
            return Err(StoreError::new(Kind::Unable, "no list"));
        }
        let state = self.reach()?;
        let keys = state.addresses.keys();
        let is_listed = |ip| match among {
            Among::Some(ips) => ips.contains(&ip),
            Among::Named(_) | Among::All => pool.ranges.contains(ip),
        };
        let listed = keys.filter(|key| key.space == pool.space && is_listed(key.ip));
        Ok(listed.map(|key| key.ip).collect())
    }
}

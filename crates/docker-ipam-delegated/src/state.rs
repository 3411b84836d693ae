//! Pools and addresses that Docker has now, in memory.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use cni::ContainerId;

use crate::pool::Pool;

/// All pools, by their IDs.
#[derive(Default)]
pub(crate) struct State {
    pools: Mutex<HashMap<String, Arc<LivePool>>>,
}

/// A pool that Docker has.
pub(crate) struct LivePool {
    /// Its ID.
    pub(crate) id: String,
    /// The pool.
    pub(crate) pool: Pool,
    /// The files of its references.
    references: Mutex<Vec<String>>,
    /// The addresses that Docker has of it. The gateway may be had several times.
    addresses: Mutex<HashMap<IpAddr, Vec<Held>>>,
    /// Those of them that are gateways, as often as Docker has each.
    gateways: Mutex<Vec<IpAddr>>,
    /// Held to read while an address is requested, and to write while the pool goes.
    pub(crate) requests: RwLock<()>,
}

/// An address that Docker has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    /// The name of its file.
    pub(crate) name: String,
    /// The attachment that holds it; `None` for the pool's gateway.
    pub(crate) container_id: Option<ContainerId>,
}

impl State {
    /// The pool of this ID.
    pub(crate) fn pool(&self, id: &str) -> Option<Arc<LivePool>> {
        lock(&self.pools).get(id).cloned()
    }

    /// All pools.
    pub(crate) fn pools(&self) -> Vec<Arc<LivePool>> {
        lock(&self.pools).values().cloned().collect()
    }

    /// Adds a reference to a pool, which may be there.
    pub(crate) fn refer(&self, pool: Pool, name: &str) -> Arc<LivePool> {
        let id = pool.id();
        let mut pools = lock(&self.pools);
        let live = pools.entry(id.clone()).or_insert_with(|| {
            Arc::new(LivePool {
                id,
                pool,
                references: Mutex::default(),
                addresses: Mutex::default(),
                gateways: Mutex::default(),
                requests: RwLock::default(),
            })
        });
        lock(&live.references).push(name.to_owned());
        Arc::clone(live)
    }

    /// Removes a pool without references.
    pub(crate) fn remove_unreferenced(&self, id: &str) {
        lock(&self.pools).retain(|key, pool| key != id || !lock(&pool.references).is_empty());
    }
}

impl LivePool {
    /// Number of references.
    pub(crate) fn references(&self) -> usize {
        lock(&self.references).len()
    }

    /// Takes a reference away: the file of that name, or the last one.
    pub(crate) fn take_reference(&self, name: Option<&str>) -> Option<String> {
        let mut references = lock(&self.references);
        match name {
            None => references.pop(),
            Some(name) => {
                let i = references.iter().position(|it| it == name)?;
                Some(references.remove(i))
            }
        }
    }

    /// Gives a reference back.
    pub(crate) fn put_reference(&self, name: String) {
        lock(&self.references).push(name);
    }

    /// Notes that Docker has an address.
    pub(crate) fn put(&self, ip: IpAddr, held: Held) {
        if held.container_id.is_none() {
            lock(&self.gateways).push(ip);
        }
        lock(&self.addresses).entry(ip).or_default().push(held);
    }

    /// Notes that Docker has an address of an attachment's. Returns the attachments that
    /// were noted for it: the chain gives an address again only if it was released.
    pub(crate) fn give(&self, ip: IpAddr, held: Held) -> Vec<Held> {
        let mut addresses = lock(&self.addresses);
        let all = addresses.entry(ip).or_default();
        let stale = all.extract_if(.., |it| it.container_id.is_some()).collect();
        all.push(held);
        stale
    }

    /// Takes an address away from Docker: the one with that file, or any.
    pub(crate) fn take(&self, ip: IpAddr, name: Option<&str>) -> Option<Held> {
        let mut addresses = lock(&self.addresses);
        let held = addresses.get_mut(&ip)?;
        let i = match name {
            None => held.len().checked_sub(1)?,
            Some(name) => held.iter().position(|it| it.name == name)?,
        };
        let taken = held.remove(i);
        if held.is_empty() {
            addresses.remove(&ip);
        }
        if taken.container_id.is_none() {
            let mut gateways = lock(&self.gateways);
            if let Some(i) = gateways.iter().position(|it| *it == ip) {
                gateways.remove(i);
            }
        }
        Some(taken)
    }

    /// Takes all addresses away.
    pub(crate) fn take_all(&self) -> Vec<(IpAddr, Held)> {
        lock(&self.gateways).clear();
        let all = lock(&self.addresses).drain().collect::<Vec<_>>();
        let each = |(ip, held): (IpAddr, Vec<Held>)| held.into_iter().map(move |it| (ip, it));
        all.into_iter().flat_map(each).collect()
    }

    /// True if an attachment holds this address.
    pub(crate) fn is_held(&self, ip: IpAddr) -> bool {
        let addresses = lock(&self.addresses);
        let mut held = addresses.get(&ip).into_iter().flatten();
        held.any(|it| it.container_id.is_some())
    }

    /// The gateway that Docker has had longest of this pool.
    pub(crate) fn gateway(&self) -> Option<IpAddr> {
        lock(&self.gateways).first().copied()
    }
}

/// Locks. A thread that has panicked leaves each of these as it was or as it should be.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! The addresses that the daemon has allocated for Docker: its records, read once.
//!
//! An [`Allocation`] is an attachment with a record, and its [`Phase`] is how far its ADD or its
//! release is. Of two calls for one address, the second finds the first one's phase: it is refused, or
//! waits for its end. Nothing here outlives the process; `recorded` reads the records at the next
//! start.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use cni::{ContainerId, NetworkName};
use docker_records::pool::Pool;
use docker_records::records::Purpose;
use ipam::{Interval, IpNet};

use crate::threads::lock;

/// An attachment that has an address for Docker, or may have one.
#[derive(Clone, Debug)]
pub(crate) struct Allocation {
    /// Its container ID, which names its record.
    pub(crate) id: ContainerId,
    /// The pool.
    pub(crate) pool: Pool,
    /// The name of its chain's network, under which it is recorded.
    pub(crate) network: NetworkName,
    /// What the address is for.
    pub(crate) purpose: Purpose,
    /// The name of the container, if Docker has told it.
    pub(crate) name: Option<String>,
    /// True if Docker requested this address.
    pub(crate) is_requested: bool,
    /// The start of its ADD, by the record.
    pub(crate) added: SystemTime,
    /// The last time that Docker got the address, by the monotonic clock; `None` if it was from an
    /// earlier daemon.
    pub(crate) since: Option<Instant>,
}

/// Progress of an attachment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Its ADD runs.
    Adding,
    /// Docker has the address.
    Given,
    /// As `Given`; and Docker has since given back a gateway or pool that it may have belonged to.
    Left,
    /// It is being released.
    Releasing,
    /// Its release has failed, or was not finished by an earlier daemon.
    Unreleased,
}

#[derive(Clone, Debug)]
struct Entry {
    allocation: Arc<Allocation>,
    ip: Option<IpAddr>,
    phase: Phase,
}

#[derive(Default)]
struct State {
    entries: HashMap<ContainerId, Entry>,
    by_ip: HashMap<IpAddr, Vec<ContainerId>>,
    /// For each subnet and range without a network configuration: all addresses that are given
    /// without request and are lower than this one are taken.
    lowest: HashMap<(IpNet, Option<IpNet>), IpAddr>,
}

/// All allocations.
#[derive(Default)]
pub(crate) struct Allocations {
    state: Mutex<State>,
    /// Notified after each ADD and each release.
    changed: Condvar,
}

impl Allocation {
    /// True if it was made at least this long ago, by the record and by this process.
    pub(crate) fn is_older_than(&self, age: Duration) -> bool {
        let by_record = SystemTime::now().duration_since(self.added);
        let here = self.since.is_none_or(|since| since.elapsed() >= age);
        here && by_record.is_ok_and(|by_record| by_record >= age)
    }
}

impl Allocations {
    /// Adds an attachment in this phase.
    pub(crate) fn add(&self, allocation: Arc<Allocation>, ip: Option<IpAddr>, phase: Phase) {
        lock(&self.state).add(allocation, ip, phase);
    }

    /// Adds an attachment whose ADD begins, for an address that no other one of its pool has.
    ///
    /// # Errors
    ///
    /// The attachment that has the address, and its phase.
    pub(crate) fn begin(
        &self,
        new: &Arc<Allocation>,
        ip: IpAddr,
    ) -> Result<(), (Arc<Allocation>, Phase)> {
        let mut state = lock(&self.state);
        if let Some(other) = state.of(ip, |other| other.pool.shares_addresses_with(&new.pool)) {
            return Err((Arc::clone(&other.allocation), other.phase));
        }
        state.add(Arc::clone(new), Some(ip), Phase::Adding);
        Ok(())
    }

    /// As [`Self::begin`], for the lowest free address above `after`; returns it. `None` if there
    /// is none.
    pub(crate) fn begin_lowest(
        &self,
        new: &Arc<Allocation>,
        after: Option<IpAddr>,
    ) -> Option<IpAddr> {
        let mut state = lock(&self.state);
        let ip = state.lowest_free(&new.pool, after)?;
        state.add(Arc::clone(new), Some(ip), Phase::Adding);
        Some(ip)
    }

    /// Notes that Docker has the address.
    pub(crate) fn given(&self, id: &ContainerId, ip: IpAddr) {
        let mut state = lock(&self.state);
        if let Some(entry) = state.remove(id) {
            state.add(entry.allocation, Some(ip), Phase::Given);
        }
        self.changed.notify_all();
    }

    /// Notes that Docker has given a gateway or a pool back, to which these belonged. They may be
    /// another network's.
    pub(crate) fn leave(&self, is_left: impl Fn(&Allocation) -> bool) {
        for entry in lock(&self.state).entries.values_mut() {
            if entry.phase == Phase::Given && is_left(&entry.allocation) {
                entry.phase = Phase::Left;
            }
        }
    }

    /// Notes that Docker gets an address once more that it has given back; false if the address
    /// isn't allocated any more, or was given once more already.
    pub(crate) fn renew(&self, id: &ContainerId) -> bool {
        let mut state = lock(&self.state);
        let entry = state.entries.get_mut(id);
        entry.is_some_and(|entry| entry.phase == Phase::Left && entry.renew())
    }

    /// The attachment that has this address of a pool.
    pub(crate) fn find(&self, pool: &Pool, ip: IpAddr) -> Option<Arc<Allocation>> {
        let state = lock(&self.state);
        let entry = state.of(ip, |allocation| allocation.pool == *pool)?;
        Some(Arc::clone(&entry.allocation))
    }

    /// Notes that Docker gets a gateway of the pool's subnet once more; false if the address isn't
    /// allocated as one. Waits while it is being reserved or released.
    pub(crate) fn share_gateway(&self, pool: &Pool, ip: IpAddr) -> bool {
        let is_meant = |allocation: &Allocation| {
            allocation.purpose == Purpose::Gateway && allocation.pool.shares_subnet_with(pool)
        };
        let mut state = self.wait_while(|state| {
            let phase = state.of(ip, is_meant).map(|entry| entry.phase);
            matches!(phase, Some(Phase::Adding | Phase::Releasing))
        });
        let meant = state.of(ip, is_meant);
        let id = meant.map(|entry| entry.allocation.id.clone());
        let entry = id.and_then(|id| state.entries.get_mut(&id));
        entry.is_some_and(Entry::renew)
    }

    /// True if there is an attachment of this ID.
    pub(crate) fn has(&self, id: &ContainerId) -> bool {
        lock(&self.state).entries.contains_key(id)
    }

    /// Notes that Docker doesn't have an address any more; false if it is being released already,
    /// or was given once more.
    pub(crate) fn abandon(&self, allocation: &Arc<Allocation>) -> bool {
        let mut state = lock(&self.state);
        let is_unchanged =
            |entry: &&mut Entry| entry.is_dockers() && Arc::ptr_eq(&entry.allocation, allocation);
        let entry = state.entries.get_mut(&allocation.id).filter(is_unchanged);
        entry.map(|entry| entry.phase = Phase::Unreleased).is_some()
    }

    /// Begins a release, after another call's that runs; false if that has released it.
    pub(crate) fn begin_release(&self, id: &ContainerId) -> bool {
        let mut state = self.wait_while(|state| {
            let entry = state.entries.get(id);
            entry.is_some_and(|entry| entry.phase == Phase::Releasing)
        });
        let entry = state.entries.get_mut(id);
        entry.map(|entry| entry.phase = Phase::Releasing).is_some()
    }

    /// Notes the outcome of a release.
    pub(crate) fn end_release(&self, id: &ContainerId, is_released: bool) {
        let mut state = lock(&self.state);
        if is_released {
            state.remove(id);
        } else if let Some(entry) = state.entries.get_mut(id) {
            entry.phase = Phase::Unreleased;
        }
        self.changed.notify_all();
    }

    /// The attachments whose release has failed.
    pub(crate) fn unreleased(&self) -> Vec<Arc<Allocation>> {
        let state = lock(&self.state);
        let entries = state.entries.values();
        let entries = entries.filter(|entry| entry.phase == Phase::Unreleased);
        entries.map(|entry| Arc::clone(&entry.allocation)).collect()
    }

    /// What Docker may have lost: what it has had for at least this long, and the gateways and
    /// claims that it has given back.
    pub(crate) fn candidates(&self, age: Duration) -> Vec<(Arc<Allocation>, IpAddr)> {
        let state = lock(&self.state);
        let entries = state.entries.values();
        let may_be_lost = entries
            .filter(|entry| entry.is_left_by_network() || entry.allocation.is_older_than(age))
            .filter(|entry| entry.is_dockers());
        may_be_lost
            .filter_map(|entry| Some((Arc::clone(&entry.allocation), entry.ip?)))
            .collect()
    }

    /// The subnets without a network configuration in which only gateways and claims are allocated
    /// that Docker has given back, with these addresses.
    pub(crate) fn left_subnets(&self) -> BTreeMap<IpNet, Vec<IpAddr>> {
        let state = lock(&self.state);
        let all = state.entries.values();
        let (left, other): (Vec<_>, Vec<_>) = all.partition(|entry| entry.is_left_by_network());
        let mut subnets: BTreeMap<IpNet, Vec<IpAddr>> = BTreeMap::new();
        for entry in left {
            let ips = subnets.entry(entry.allocation.pool.subnet).or_default();
            ips.extend(entry.ip);
        }
        for entry in other {
            subnets.remove(&entry.allocation.pool.subnet);
        }
        subnets
    }

    /// The subnets of all pools of which something is allocated.
    pub(crate) fn subnets(&self) -> BTreeSet<IpNet> {
        let state = lock(&self.state);
        let entries = state.entries.values();
        entries.map(|entry| entry.allocation.pool.subnet).collect()
    }

    /// True if something is allocated in the directory of pools without a network configuration.
    pub(crate) fn use_directory(&self) -> bool {
        let state = lock(&self.state);
        let mut entries = state.entries.values();
        entries.any(|entry| entry.allocation.pool.conflist.is_none())
    }

    /// Locks the state, once this isn't true of it any more.
    fn wait_while(&self, is_changing: impl FnMut(&mut State) -> bool) -> MutexGuard<'_, State> {
        let waited = self.changed.wait_while(lock(&self.state), is_changing);
        waited.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    /// True if Docker has the address, or may have it.
    fn is_dockers(&self) -> bool {
        matches!(self.phase, Phase::Given | Phase::Left)
    }

    /// True for a gateway or claim that Docker has given back.
    fn is_left_by_network(&self) -> bool {
        self.phase == Phase::Left && self.allocation.purpose != Purpose::Container
    }

    /// Gives the address to Docker once more, if it isn't being released.
    fn renew(&mut self) -> bool {
        let is_dockers = self.is_dockers();
        if is_dockers {
            self.phase = Phase::Given;
            // Who has asked Docker about the earlier value must not release this one.
            self.allocation = Arc::new(Allocation {
                since: Some(Instant::now()),
                ..Allocation::clone(&self.allocation)
            });
        }
        is_dockers
    }
}

impl State {
    fn of(&self, ip: IpAddr, is_meant: impl Fn(&Allocation) -> bool) -> Option<&Entry> {
        let ids = self.by_ip.get(&ip).into_iter().flatten();
        let mut entries = ids.filter_map(|id| self.entries.get(id));
        entries.find(|entry| is_meant(&entry.allocation))
    }

    fn add(&mut self, allocation: Arc<Allocation>, ip: Option<IpAddr>, phase: Phase) {
        let id = allocation.id.clone();
        if let Some(ip) = ip {
            self.by_ip.entry(ip).or_default().push(id.clone());
        }
        let entry = Entry {
            allocation,
            ip,
            phase,
        };
        self.entries.insert(id, entry);
    }

    fn remove(&mut self, id: &ContainerId) -> Option<Entry> {
        let entry = self.entries.remove(id)?;
        if let Some(ip) = entry.ip {
            if let Some(ids) = self.by_ip.get_mut(&ip) {
                ids.retain(|other| other != id);
                if ids.is_empty() {
                    self.by_ip.remove(&ip);
                }
            }
            for ((subnet, _), lowest) in &mut self.lowest {
                if subnet.contains(&ip) {
                    *lowest = ip.min(*lowest);
                }
            }
        }
        Some(entry)
    }

    fn lowest_free(&mut self, pool: &Pool, after: Option<IpAddr>) -> Option<IpAddr> {
        let given = pool.given?;
        let key = (pool.subnet, pool.range);
        let known = self.lowest.get(&key);
        let lowest = known.map_or(given.first(), |ip| given.first().max(*ip));
        let mut rest = Interval::new(lowest, given.last())?;
        if let Some(after) = after {
            rest = rest.after(after)?;
        }
        let is_of_pool = |other: &Allocation| other.pool.shares_addresses_with(pool);
        let ip = rest.iter().find(|ip| self.of(*ip, is_of_pool).is_none())?;
        if after.is_none() {
            self.lowest.insert(key, ip);
        }
        Some(ip)
    }
}

#[cfg(test)]
mod tests;

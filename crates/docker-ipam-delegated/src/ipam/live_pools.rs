//! The pools of this process.

use std::sync::{Arc, Mutex};

use crate::ipam::live_pool::LivePool;
use crate::threads::lock;

/// All pools: those that Docker has, and those that have ended and are still needed.
#[derive(Default)]
pub(crate) struct LivePools(Mutex<Vec<Arc<LivePool>>>);

impl LivePools {
    /// The pool of this ID that Docker has.
    pub(crate) fn pool(&self, id: &str) -> Option<Arc<LivePool>> {
        let pools = lock(&self.0);
        let mut same = pools.iter().filter(|pool| pool.id == id);
        same.find(|pool| pool.is_live()).cloned()
    }

    /// The pools that Docker has.
    pub(crate) fn live(&self) -> Vec<Arc<LivePool>> {
        let mut pools = self.all();
        pools.retain(|pool| pool.is_live());
        pools
    }

    /// All pools.
    pub(crate) fn all(&self) -> Vec<Arc<LivePool>> {
        lock(&self.0).clone()
    }

    /// Adds a reference to the live pool with this pool's ID, or to this pool if there is none.
    /// Returns the pool that has the reference.
    pub(crate) fn refer(&self, pool: Arc<LivePool>, file: &str, is_sure: bool) -> Arc<LivePool> {
        let mut pools = lock(&self.0);
        let mut same = pools.iter().filter(|other| other.id == pool.id);
        if let Some(known) = same.find(|known| known.refer(file, is_sure)) {
            return Arc::clone(known);
        }
        pool.refer(file, is_sure);
        pools.push(Arc::clone(&pool));
        pool
    }

    /// Adds the last reference of a pool that has ended.
    pub(crate) fn refer_ended(&self, pool: Arc<LivePool>, file: String) {
        let mut pools = lock(&self.0);
        let mut same = pools.iter().filter(|other| other.id == pool.id);
        if let Some(known) = same.find(|known| !known.is_live()) {
            return known.refer_ended(file);
        }
        pool.refer_ended(file);
        pools.push(pool);
    }

    /// Removes the pools that have ended and that nothing needs; returns the files of their
    /// references.
    pub(crate) fn take_ended(&self) -> Vec<String> {
        let mut files = Vec::new();
        lock(&self.0).retain(|pool| {
            let unneeded = pool.unneeded().filter(|_| Arc::strong_count(pool) == 1);
            let is_needed = unneeded.is_none();
            files.extend(unneeded.into_iter().flatten());
            is_needed
        });
        files
    }
}

#[cfg(test)]
mod tests {
    use cni::ContainerId;

    use super::*;
    use crate::ipam::held::{Held, Holder, Standing};
    use crate::ipam::live_pool::Dropped;
    use crate::state::pool::Pool;

    fn pools(references: &[(&str, bool)]) -> (LivePools, Arc<LivePool>) {
        let pools = LivePools::default();
        for (file, is_sure) in references {
            let pool = LivePool::new(Pool::example("10.1.0.0/16")).unwrap();
            pools.refer(pool, file, *is_sure);
        }
        let pool = pools.all().remove(0);
        (pools, pool)
    }

    fn address(pool: &Arc<LivePool>, container_id: &str) -> Held {
        Held {
            pool: Arc::clone(pool),
            ip: Some("10.1.0.2".parse().unwrap()),
            holder: Holder::Attachment(container_id.parse().unwrap()),
        }
    }

    fn holders(held: &Held) -> Vec<String> {
        let holders = held.pool.attachments(held.ip.unwrap());
        holders.iter().map(ContainerId::to_string).collect()
    }

    /// Drops any reference.
    fn drop_any(pool: &Arc<LivePool>) -> Dropped {
        pool.drop_reference(None, |_| ()).unwrap()
    }

    #[test]
    fn a_reference_that_docker_may_not_have_keeps_only_a_pool_that_is_used() {
        let (pools, pool) = pools(&[("1", true), ("2", false)]);
        // The other network's gateway.
        let holder = Holder::Gateway("g".to_owned());
        let gateway = Held {
            holder,
            ..address(&pool, "c")
        };
        gateway.give().unwrap();
        assert_eq!(pool.gateway(), gateway.ip);
        let dropped = drop_any(&pool);
        assert!(dropped.files == ["1"] && pools.pool(&pool.id).is_some());

        let (pools, pool) = self::pools(&[("1", false), ("2", true)]);
        let dropped = drop_any(&pool);
        assert!(dropped.files == ["1"] && pools.pool(&pool.id).is_none());
        drop((dropped, pool));
        assert_eq!(pools.take_ended(), ["2"]);
    }

    #[test]
    fn two_attachments_of_one_address_are_both_kept() {
        let (_pools, pool) = pools(&[("1", true)]);
        for id in ["c2", "c1"] {
            address(&pool, id).recover(Standing::Given);
        }
        assert_eq!(holders(&address(&pool, "c")), ["c2", "c1"]);
    }

    #[test]
    fn an_address_of_a_pool_that_has_ended_is_not_noted() {
        let (pools, pool) = pools(&[("1", true)]);
        for id in ["c1", "c2"] {
            address(&pool, id).give().unwrap();
            assert_eq!(holders(&address(&pool, id)), [id]);
        }
        drop_any(&pool);
        // Another pool of the same ID is not the same pool.
        let other = LivePool::new(Pool::example("10.1.0.0/16")).unwrap();
        pools.refer(other, "2", true);
        assert!(address(&pool, "c3").give().is_err());
    }

    #[test]
    fn a_failed_release_waits_though_the_pool_has_ended() {
        let (pools, pool) = pools(&[("1", true)]);
        let held = address(&pool, "c1");
        held.give().unwrap();
        let releases = drop_any(&pool).ended;
        assert_eq!(releases.len(), 1);
        drop(releases);
        assert!(pool.begin_waiting().is_empty());
        held.end_release(false);
        assert_eq!(pool.begin_waiting().len(), 1);
        held.end_release(true);
        assert!(pools.take_ended().is_empty(), "a call has the pool");
        drop((held, pool));
        assert_eq!(pools.take_ended(), ["1"]);
    }
}

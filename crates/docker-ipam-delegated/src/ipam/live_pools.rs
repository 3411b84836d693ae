//! Pools of this process, with the addresses that are held of each.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use cni::ContainerId;

use crate::ipam::held::{Held, Holder, LivePool, Standing};
use crate::ipam::pool_entry::{Entry, Reference, Use};
use crate::lock::lock;

/// All pools: those that Docker has, and those that have ended and are still needed.
#[derive(Default)]
pub(crate) struct LivePools(Mutex<Vec<Entry>>);

/// A reference that was taken away.
pub(crate) struct Dropped {
    /// The files of references that nobody has any more.
    pub(crate) files: Vec<String>,
    /// What is to be released, if that was the pool's end.
    pub(crate) ended: Vec<Held>,
}

/// The pool has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PoolEnded;

impl LivePools {
    /// The pool of this ID that Docker has.
    pub(crate) fn pool(&self, id: &str) -> Option<Arc<LivePool>> {
        let mut table = lock(&self.0);
        live(&mut table, id).map(|entry| Arc::clone(&entry.pool))
    }

    /// The pools that Docker has.
    pub(crate) fn all(&self) -> Vec<Arc<LivePool>> {
        self.which(Entry::is_live)
    }

    /// The pools that have ended and are still needed.
    pub(crate) fn ended(&self) -> Vec<Arc<LivePool>> {
        self.which(|entry| !entry.is_live())
    }

    fn which(&self, is_meant: impl Fn(&Entry) -> bool) -> Vec<Arc<LivePool>> {
        let table = lock(&self.0);
        let entries = table.iter().filter(|entry| is_meant(entry));
        entries.map(|entry| Arc::clone(&entry.pool)).collect()
    }

    /// Adds a reference to a pool, which may be there.
    pub(crate) fn refer(&self, pool: Arc<LivePool>, file: &str, is_sure: bool) -> Arc<LivePool> {
        let mut table = lock(&self.0);
        let entry = entry_of(&mut table, pool, Entry::is_live);
        entry.references.push(Reference {
            file: file.to_owned(),
            is_sure,
            since: Instant::now(),
        });
        Arc::clone(&entry.pool)
    }

    /// Adds the last reference of a pool that has ended.
    pub(crate) fn refer_ended(&self, pool: Arc<LivePool>, file: String) {
        let mut table = lock(&self.0);
        let entry = entry_of(&mut table, pool, |entry| !entry.is_live());
        entry.ended.push(file);
    }

    /// Takes a reference away: that of a file, or any. `note` gets the file's name before.
    ///
    /// The pool ends with its last reference. It also ends if Docker has no address of it, not
    /// even a gateway, and may never have had the other references.
    pub(crate) fn drop_reference(
        &self,
        id: &str,
        file: Option<&str>,
        note: impl FnOnce(&str),
    ) -> Option<Dropped> {
        let mut table = lock(&self.0);
        let entry = live(&mut table, id)?;
        let references = &mut entry.references;
        let index = match file {
            Some(file) => references.iter().position(|other| other.file == file),
            None => references
                .iter()
                .rposition(|reference| reference.is_sure)
                .or(references.len().checked_sub(1)),
        };
        let index = index?;
        note(&references[index].file);
        let file = references.remove(index).file;
        let has_sure = references.iter().any(|other| other.is_sure);
        let is_needed = has_sure || entry.uses().any(|(_, one)| one.is_given());
        if is_needed && !entry.references.is_empty() {
            let files = vec![file];
            let ended = Vec::new();
            return Some(Dropped { files, ended });
        }
        let others = entry.references.drain(..);
        let files = others.map(|other| other.file).collect();
        entry.ended.push(file);
        let ended = entry.begin_releases(Standing::Given);
        Some(Dropped { files, ended })
    }

    /// The references that existed at this time: their pools and the names of their files.
    pub(crate) fn references(&self, before: Instant) -> Vec<(Arc<LivePool>, String)> {
        let table = lock(&self.0);
        let mut all = Vec::new();
        for entry in table.iter() {
            let old = entry.references.iter().filter(|one| one.since <= before);
            all.extend(old.map(|one| (Arc::clone(&entry.pool), one.file.clone())));
        }
        all
    }

    /// The addresses and gateways that Docker had at this time and still has, as far as is known.
    pub(crate) fn held(&self, before: Instant) -> Vec<Held> {
        let table = lock(&self.0);
        let mut all = Vec::new();
        for entry in table.iter() {
            let is_old = |one: &Use| one.is_given() && one.since <= before;
            let old = entry.uses().filter(|(_, one)| is_old(one));
            all.extend(old.map(|(ip, one)| entry.held(ip, &one.holder)));
        }
        all
    }

    /// Notes an address that an earlier daemon has given, or was releasing, or an attachment
    /// whose address is not known yet. If two attachments have one address, both are kept: their
    /// order proves nothing.
    pub(crate) fn recover(&self, held: Held, standing: Standing) {
        let mut table = lock(&self.0);
        if let Some(entry) = same(&mut table, &held.pool) {
            let standing = if entry.is_live() {
                standing
            } else {
                Standing::Waiting
            };
            entry.remove(None, &held.holder);
            entry.put(held.ip, held.holder, standing);
        }
    }

    /// Notes that Docker has an address of a pool. The chain gives an attachment's address
    /// again only if it was released, so other attachments that were noted for it are not any
    /// more.
    ///
    /// # Errors
    ///
    /// The pool has ended meanwhile; nothing is noted.
    pub(crate) fn give(&self, held: &Held) -> Result<(), PoolEnded> {
        let mut table = lock(&self.0);
        let entry = same(&mut table, &held.pool).filter(|entry| entry.is_live());
        let entry = entry.ok_or(PoolEnded)?;
        if let (Holder::Attachment(_), Some(uses)) = (&held.holder, entry.uses.get_mut(&held.ip)) {
            uses.retain(|one| {
                let is_released = one.is_given() && one.holder.container_id().is_some();
                if is_released {
                    tracing::warn!(pool = entry.pool.id, ip = ?held.ip, holder = ?one.holder, "was released without Docker");
                }
                !is_released
            });
        }
        entry.put(held.ip, held.holder.clone(), Standing::Given);
        Ok(())
    }

    /// Begins the release of this; false if Docker doesn't have it any more.
    pub(crate) fn begin_release_of(&self, held: &Held) -> bool {
        let mut table = lock(&self.0);
        let entry = same(&mut table, &held.pool);
        let uses = entry.and_then(|entry| entry.uses.get_mut(&held.ip));
        let mut uses = uses.into_iter().flatten();
        let found = uses.find(|one| one.is_given() && one.holder == held.holder);
        found
            .map(|one| one.standing = Standing::Releasing)
            .is_some()
    }

    /// Begins the release of an address, by any of its holders: one that Docker has, or else one
    /// that is to be released.
    pub(crate) fn begin_release(&self, id: &str, ip: IpAddr) -> Option<Held> {
        let mut table = lock(&self.0);
        let entry = live(&mut table, id)?;
        let uses = entry.uses.get_mut(&Some(ip))?;
        let dockers = uses.iter().rposition(|one| one.is_given());
        let index = dockers.or(uses.len().checked_sub(1))?;
        uses[index].standing = Standing::Releasing;
        let holder = uses[index].holder.clone();
        Some(entry.held(Some(ip), &holder))
    }

    /// Begins the releases that wait; returns them by pools.
    pub(crate) fn begin_waiting(&self) -> Vec<Vec<Held>> {
        let mut table = lock(&self.0);
        let waiting = table
            .iter_mut()
            .map(|entry| entry.begin_releases(Standing::Waiting));
        waiting.filter(|of_pool| !of_pool.is_empty()).collect()
    }

    /// Ends a release. If it has failed, it waits.
    pub(crate) fn end_release(&self, held: &Held, is_released: bool) {
        let mut table = lock(&self.0);
        if let Some(entry) = same(&mut table, &held.pool) {
            entry.remove(held.ip, &held.holder);
            if !is_released {
                entry.put(held.ip, held.holder.clone(), Standing::Waiting);
            }
        }
    }

    /// Takes away the pools that have ended and that nothing needs; returns the files of their
    /// references.
    pub(crate) fn take_ended(&self) -> Vec<String> {
        let is_over = |entry: &mut Entry| {
            !entry.is_live() && entry.uses.is_empty() && Arc::strong_count(&entry.pool) == 1
        };
        let mut table = lock(&self.0);
        let over = table.extract_if(.., is_over);
        over.flat_map(|entry| entry.ended).collect()
    }

    /// The attachments that hold this address for Docker, as far as is known.
    pub(crate) fn attachments(&self, pool: &Arc<LivePool>, ip: IpAddr) -> Vec<ContainerId> {
        let mut table = lock(&self.0);
        let uses = same(&mut table, pool).and_then(|entry| entry.uses.get(&Some(ip)));
        let uses = uses.into_iter().flatten();
        let dockers = uses.filter(|one| one.is_given());
        dockers
            .filter_map(|one| one.holder.container_id().cloned())
            .collect()
    }

    /// The gateway that Docker has had longest of a pool.
    pub(crate) fn gateway(&self, pool: &Arc<LivePool>) -> Option<IpAddr> {
        let mut table = lock(&self.0);
        let gateways = &same(&mut table, pool)?.gateways;
        gateways.first_key_value().map(|(_, ip)| *ip)
    }
}

fn live<'a>(table: &'a mut [Entry], id: &str) -> Option<&'a mut Entry> {
    let mut entries = table.iter_mut();
    entries.find(|entry| entry.is_live() && entry.pool.id == id)
}

fn same<'a>(table: &'a mut [Entry], pool: &Arc<LivePool>) -> Option<&'a mut Entry> {
    let mut entries = table.iter_mut();
    entries.find(|entry| Arc::ptr_eq(&entry.pool, pool))
}

/// The entry of a pool's ID that is meant; a new one if there is none.
fn entry_of(
    table: &mut Vec<Entry>,
    pool: Arc<LivePool>,
    is_meant: impl Fn(&Entry) -> bool,
) -> &mut Entry {
    let mut entries = table.iter();
    let index = entries.position(|entry| is_meant(entry) && entry.pool.id == pool.id);
    let index = index.unwrap_or_else(|| {
        table.push(Entry::new(pool));
        table.len() - 1
    });
    &mut table[index]
}

#[cfg(test)]
mod tests {
    use super::*;
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

    fn holders(pools: &LivePools, held: &Held) -> Vec<String> {
        let holders = pools.attachments(&held.pool, held.ip.unwrap());
        holders.iter().map(ContainerId::to_string).collect()
    }

    /// Takes any reference away.
    fn drop_any(pools: &LivePools, pool: &LivePool) -> Dropped {
        pools.drop_reference(&pool.id, None, |_| ()).unwrap()
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
        pools.give(&gateway).unwrap();
        assert_eq!(pools.gateway(&pool), gateway.ip);
        let dropped = drop_any(&pools, &pool);
        assert!(dropped.files == ["1"] && pools.pool(&pool.id).is_some());

        let (pools, pool) = self::pools(&[("1", false), ("2", true)]);
        let dropped = drop_any(&pools, &pool);
        assert!(dropped.files == ["1"] && pools.pool(&pool.id).is_none());
        drop((dropped, pool));
        assert_eq!(pools.take_ended(), ["2"]);
    }

    #[test]
    fn two_attachments_of_one_address_are_both_kept() {
        let (pools, pool) = pools(&[("1", true)]);
        for id in ["c2", "c1"] {
            pools.recover(address(&pool, id), Standing::Given);
        }
        assert_eq!(holders(&pools, &address(&pool, "c")), ["c2", "c1"]);
    }

    #[test]
    fn an_address_of_a_pool_that_has_ended_is_not_noted() {
        let (pools, pool) = pools(&[("1", true)]);
        for id in ["c1", "c2"] {
            pools.give(&address(&pool, id)).unwrap();
            assert_eq!(holders(&pools, &address(&pool, id)), [id]);
        }
        drop_any(&pools, &pool);
        // Another pool of the same ID is not the same pool.
        let other = LivePool::new(Pool::example("10.1.0.0/16")).unwrap();
        pools.refer(other, "2", true);
        assert_eq!(pools.give(&address(&pool, "c3")), Err(PoolEnded));
    }

    #[test]
    fn a_failed_release_waits_though_the_pool_has_ended() {
        let (pools, pool) = pools(&[("1", true)]);
        let held = address(&pool, "c1");
        pools.give(&held).unwrap();
        let releases = drop_any(&pools, &pool).ended;
        assert_eq!(releases.len(), 1);
        drop(releases);
        assert!(pools.begin_waiting().is_empty());
        pools.end_release(&held, false);
        assert_eq!(pools.begin_waiting().len(), 1);
        pools.end_release(&held, true);
        assert!(pools.take_ended().is_empty(), "a call has the pool");
        drop((held, pool));
        assert_eq!(pools.take_ended(), ["1"]);
    }
}

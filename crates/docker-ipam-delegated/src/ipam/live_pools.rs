//! Pools and addresses that Docker has now.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use cni::ContainerId;

use crate::ipam::given::{GivenAddress, GivenReference, Holder, Use};
use crate::lock::lock;
use crate::state::pool::Pool;
use crate::turns::Turns;

/// Chains that run for one pool at once. More of them would wait for the same locks, and a
/// pool whose delegates hang keeps no other pool waiting.
const CHAINS_AT_ONCE: usize = 4;

/// All pools, by their IDs.
#[derive(Default)]
pub(crate) struct LivePools {
    pools: Mutex<HashMap<String, Entry>>,
}

/// A pool that Docker has.
pub(crate) struct LivePool {
    /// Its ID.
    pub(crate) id: String,
    /// The pool.
    pub(crate) pool: Pool,
    /// Turns of its chains.
    pub(crate) chains: Turns,
}

impl LivePool {
    /// A pool that has nothing.
    pub(crate) fn new(pool: Pool) -> Arc<Self> {
        Arc::new(Self {
            id: pool.id(),
            pool,
            chains: Turns::new(CHAINS_AT_ONCE),
        })
    }
}

/// A pool with what Docker has of it.
struct Entry {
    pool: Arc<LivePool>,
    references: Vec<Reference>,
    /// The gateway may be had several times.
    addresses: HashMap<IpAddr, Vec<Use>>,
    /// Those of the addresses that are gateways, as often as Docker has each.
    gateways: Vec<IpAddr>,
}

/// One `RequestPool` without its `ReleasePool`.
struct Reference {
    /// The name of its file.
    file: String,
    /// False if Docker may not have had the answer, since an earlier daemon was killed.
    is_sure: bool,
}

/// A reference that was taken away.
pub(crate) struct Dropped {
    /// The name of its file.
    pub(crate) file: String,
    /// The pool, if that was its end.
    pub(crate) ended: Option<Ended>,
}

/// A pool that has ended, with what is left of it.
pub(crate) struct Ended {
    pub(crate) pool: Arc<LivePool>,
    /// The files of references that nobody has.
    pub(crate) references: Vec<String>,
    /// Addresses that were not released before it.
    pub(crate) addresses: Vec<(IpAddr, Holder)>,
}

impl LivePools {
    /// The pool of this ID.
    pub(crate) fn pool(&self, id: &str) -> Option<Arc<LivePool>> {
        let pools = lock(&self.pools);
        pools.get(id).map(|entry| Arc::clone(&entry.pool))
    }

    /// All pools.
    pub(crate) fn all(&self) -> Vec<Arc<LivePool>> {
        let pools = lock(&self.pools);
        let entries = pools.values();
        entries.map(|entry| Arc::clone(&entry.pool)).collect()
    }

    /// Adds a reference to a pool, which may be there.
    pub(crate) fn refer(&self, pool: Pool, file: &str, is_sure: bool) -> Arc<LivePool> {
        let mut pools = lock(&self.pools);
        let entry = pools.entry(pool.id()).or_insert_with(|| Entry {
            pool: LivePool::new(pool),
            references: Vec::new(),
            addresses: HashMap::new(),
            gateways: Vec::new(),
        });
        let file = file.to_owned();
        entry.references.push(Reference { file, is_sure });
        Arc::clone(&entry.pool)
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
        let mut pools = lock(&self.pools);
        let entry = pools.get_mut(id)?;
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
        let is_needed = !entry.addresses.is_empty() || references.iter().any(|other| other.is_sure);
        if is_needed && !references.is_empty() {
            return Some(Dropped { file, ended: None });
        }
        let ended = pools.remove(id).map(|entry| Ended {
            pool: entry.pool,
            references: entry
                .references
                .into_iter()
                .map(|reference| reference.file)
                .collect(),
            addresses: holders(entry.addresses),
        });
        Some(Dropped { file, ended })
    }

    /// The references to all pools.
    pub(crate) fn references(&self) -> Vec<GivenReference> {
        let pools = lock(&self.pools);
        let mut all = Vec::new();
        for Entry {
            pool, references, ..
        } in pools.values()
        {
            all.extend(references.iter().map(|reference| GivenReference {
                pool: pool.id.clone(),
                subnet: pool.pool.subnet,
                file: reference.file.clone(),
            }));
        }
        all
    }

    /// The addresses and gateways of all pools.
    pub(crate) fn addresses(&self) -> Vec<GivenAddress> {
        let pools = lock(&self.pools);
        let mut all = Vec::new();
        for Entry {
            pool, addresses, ..
        } in pools.values()
        {
            for (ip, uses) in addresses {
                all.extend(uses.iter().map(|used| GivenAddress {
                    pool: pool.id.clone(),
                    subnet: pool.pool.subnet,
                    ip: *ip,
                    used: used.clone(),
                }));
            }
        }
        all
    }

    /// Notes an address that an earlier daemon has given. If two attachments have one address,
    /// both are kept: their order proves nothing.
    pub(crate) fn recover(&self, pool: &str, ip: IpAddr, recovered: Use) {
        let mut pools = lock(&self.pools);
        let Some(entry) = pools.get_mut(pool) else {
            return;
        };
        let uses = entry.addresses.entry(ip).or_default();
        if uses.iter().any(|one| one.holder == recovered.holder) {
            return;
        }
        if recovered.holder.container_id().is_none() {
            entry.gateways.push(ip);
        }
        uses.push(recovered);
    }

    /// Notes that Docker has an address of a pool. The chain gives an attachment's address
    /// again only if it was released, so other attachments that were noted for it are not any
    /// more.
    ///
    /// # Errors
    ///
    /// The pool has ended meanwhile; nothing is noted.
    pub(crate) fn give(
        &self,
        pool: &Arc<LivePool>,
        ip: IpAddr,
        holder: Holder,
    ) -> Result<(), PoolEnded> {
        let mut pools = lock(&self.pools);
        let entry = pools.get_mut(&pool.id);
        let Some(entry) = entry.filter(|entry| Arc::ptr_eq(&entry.pool, pool)) else {
            return Err(PoolEnded);
        };
        let uses = entry.addresses.entry(ip).or_default();
        match &holder {
            Holder::Attachment(_) => uses.retain(|one| {
                let is_released = one.holder.container_id().is_some();
                if is_released {
                    tracing::warn!(pool = pool.id, %ip, holder = ?one.holder, "was released without Docker");
                }
                !is_released
            }),
            Holder::Gateway(_) => entry.gateways.push(ip),
        }
        let is_sure = true;
        uses.push(Use { holder, is_sure });
        Ok(())
    }

    /// Takes an address away from Docker: from this holder, or any.
    pub(crate) fn take(&self, id: &str, ip: IpAddr, holder: Option<&Holder>) -> Option<Holder> {
        let mut pools = lock(&self.pools);
        let entry = pools.get_mut(id)?;
        let uses = entry.addresses.get_mut(&ip)?;
        let index = match holder {
            None => uses.len().checked_sub(1)?,
            Some(holder) => uses.iter().position(|one| one.holder == *holder)?,
        };
        let taken = uses.remove(index).holder;
        if uses.is_empty() {
            entry.addresses.remove(&ip);
        }
        if taken.container_id().is_none()
            && let Some(index) = entry.gateways.iter().position(|gateway| *gateway == ip)
        {
            entry.gateways.remove(index);
        }
        Some(taken)
    }

    /// Notes that Docker has the address of this holder.
    pub(crate) fn make_sure(&self, id: &str, ip: IpAddr, holder: &Holder) {
        let mut pools = lock(&self.pools);
        let uses = pools
            .get_mut(id)
            .and_then(|entry| entry.addresses.get_mut(&ip));
        let mut uses = uses.into_iter().flatten();
        if let Some(found) = uses.find(|one| one.holder == *holder) {
            found.is_sure = true;
        }
    }

    /// The attachments that hold this address, as far as is known.
    pub(crate) fn attachments(&self, id: &str, ip: IpAddr) -> Vec<ContainerId> {
        let pools = lock(&self.pools);
        let uses = pools.get(id).and_then(|entry| entry.addresses.get(&ip));
        let uses = uses.into_iter().flatten();
        let ids = uses.filter_map(|one| one.holder.container_id().cloned());
        ids.collect()
    }

    /// The gateway that Docker has had longest of a pool.
    pub(crate) fn gateway(&self, id: &str) -> Option<IpAddr> {
        lock(&self.pools).get(id)?.gateways.first().copied()
    }

    /// The attachments that hold addresses.
    pub(crate) fn all_attachments(&self) -> Vec<ContainerId> {
        let pools = lock(&self.pools);
        let uses = pools.values().flat_map(|entry| entry.addresses.values());
        let uses = uses.flatten();
        let ids = uses.filter_map(|one| one.holder.container_id().cloned());
        ids.collect()
    }
}

/// The pool has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PoolEnded;

fn holders(addresses: HashMap<IpAddr, Vec<Use>>) -> Vec<(IpAddr, Holder)> {
    let mut all = Vec::new();
    for (ip, uses) in addresses {
        all.extend(uses.into_iter().map(|one| (ip, one.holder)));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const GATEWAY: &str = "10.1.0.1";

    fn pools(references: &[(&str, bool)]) -> (LivePools, Arc<LivePool>) {
        let pools = LivePools::default();
        let pool = crate::state::pool::tests::pool("10.1.0.0/16", None, None);
        for (file, is_sure) in references {
            pools.refer(pool.clone(), file, *is_sure);
        }
        let pool = pools.pool(&pool.id()).unwrap();
        (pools, pool)
    }

    fn attachment(container_id: &str) -> Holder {
        Holder::Attachment(container_id.parse().unwrap())
    }

    /// Takes any reference away: the name of its file, and whether the pool has ended.
    fn dropped(pools: &LivePools, pool: &LivePool) -> (String, bool) {
        let dropped = pools.drop_reference(&pool.id, None, |_| ()).unwrap();
        (dropped.file, dropped.ended.is_some())
    }

    #[test]
    fn a_reference_that_docker_may_not_have_keeps_only_a_pool_that_is_used() {
        let (pools, pool) = pools(&[("1", true), ("2", false)]);
        let ip = GATEWAY.parse().unwrap();
        pools
            .give(&pool, ip, Holder::Gateway("g".to_owned()))
            .unwrap();
        // The other network's gateway.
        assert_eq!(dropped(&pools, &pool), ("1".to_owned(), false));

        let (pools, pool) = self::pools(&[("1", false), ("2", true)]);
        assert_eq!(dropped(&pools, &pool), ("2".to_owned(), true));
    }

    #[test]
    fn two_attachments_of_one_address_are_both_kept() {
        let (pools, pool) = pools(&[("1", true)]);
        let ip = "10.1.0.2".parse().unwrap();
        for id in ["c2", "c1", "c1"] {
            let (holder, is_sure) = (attachment(id), true);
            pools.recover(&pool.id, ip, Use { holder, is_sure });
        }
        assert_eq!(pools.attachments(&pool.id, ip).len(), 2);
    }

    #[test]
    fn an_address_of_a_pool_that_has_ended_is_not_noted() {
        let (pools, pool) = pools(&[("1", true)]);
        let ip = "10.1.0.2".parse().unwrap();
        for id in ["c1", "c2"] {
            pools.give(&pool, ip, attachment(id)).unwrap();
            assert_eq!(pools.attachments(&pool.id, ip)[0].as_str(), id);
        }
        dropped(&pools, &pool);
        // Another pool of the same ID is not the same pool.
        pools.refer(pool.pool.clone(), "2", true);
        assert_eq!(pools.give(&pool, ip, attachment("c3")), Err(PoolEnded));
    }
}

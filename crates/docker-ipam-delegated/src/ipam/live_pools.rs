//! Pools and addresses that Docker has now, in memory.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use cni::ContainerId;
use tokio::sync::Semaphore;

use crate::lock::lock;
use crate::state::pool::Pool;

/// Chains that run for one pool at once. More of them would wait for the same locks, and a
/// pool whose delegates hang keeps no other pool waiting.
const CHAINS_AT_ONCE: usize = 4;

/// All pools, by their IDs.
#[derive(Default)]
pub(crate) struct State {
    pools: Mutex<HashMap<String, Entry>>,
}

/// A pool that Docker has.
pub(crate) struct LivePool {
    /// Its ID.
    pub(crate) id: String,
    /// The pool.
    pub(crate) pool: Pool,
    /// A permit for each chain that may run for it.
    pub(crate) chains: Semaphore,
}

impl LivePool {
    /// A pool by itself.
    pub(crate) fn new(pool: Pool) -> Arc<Self> {
        Arc::new(Self {
            id: pool.id(),
            pool,
            chains: Semaphore::new(CHAINS_AT_ONCE),
        })
    }
}

/// A pool with what Docker has of it.
struct Entry {
    pool: Arc<LivePool>,
    references: Vec<Reference>,
    /// The gateway may be had several times.
    addresses: HashMap<IpAddr, Vec<AddressFile>>,
    /// Those of the addresses that are gateways, as often as Docker has each.
    gateways: Vec<IpAddr>,
}

/// One `RequestPool` without its `ReleasePool`.
struct Reference {
    /// The name of its file.
    file: String,
    /// False if an earlier daemon was killed, and Docker may not have had the answer.
    is_sure: bool,
}

/// The file of an address that Docker has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AddressFile {
    /// Its name.
    pub(crate) name: String,
    /// The attachment that holds the address; `None` for the pool's gateway.
    pub(crate) container_id: Option<ContainerId>,
    /// False if an earlier daemon was killed, and Docker may not have had the answer.
    pub(crate) is_sure: bool,
}

/// A reference that was taken away.
pub(crate) struct Dropped {
    /// The name of its file.
    pub(crate) file: String,
    /// The pool, if that was its end.
    pub(crate) ended: Option<Ended>,
}

/// What is left of a pool that has ended.
pub(crate) struct Ended {
    pub(crate) pool: Arc<LivePool>,
    /// The files of references that nobody has.
    pub(crate) references: Vec<String>,
    /// Addresses that were not released before it.
    pub(crate) addresses: Vec<(IpAddr, AddressFile)>,
}

impl State {
    /// The pool of this ID.
    pub(crate) fn pool(&self, id: &str) -> Option<Arc<LivePool>> {
        lock(&self.pools).get(id).map(|it| Arc::clone(&it.pool))
    }

    /// All pools.
    pub(crate) fn pools(&self) -> Vec<Arc<LivePool>> {
        let pools = lock(&self.pools);
        pools.values().map(|it| Arc::clone(&it.pool)).collect()
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
    /// The pool ends with its last reference, and if Docker has no address of it, not
    /// even a gateway, and may never have had the others.
    pub(crate) fn drop_reference(
        &self,
        id: &str,
        file: Option<&str>,
        note: impl FnOnce(&str),
    ) -> Option<Dropped> {
        let mut pools = lock(&self.pools);
        let entry = pools.get_mut(id)?;
        let references = &mut entry.references;
        let i = match file {
            Some(file) => references.iter().position(|it| it.file == file),
            None => references
                .iter()
                .rposition(|it| it.is_sure)
                .or(references.len().checked_sub(1)),
        };
        let i = i?;
        note(&references[i].file);
        let file = references.remove(i).file;
        let is_unused = entry.addresses.is_empty() && references.iter().all(|it| !it.is_sure);
        if !is_unused && !references.is_empty() {
            return Some(Dropped { file, ended: None });
        }
        let ended = pools.remove(id).map(|entry| Ended {
            pool: entry.pool,
            references: entry.references.into_iter().map(|it| it.file).collect(),
            addresses: each(entry.addresses),
        });
        Some(Dropped { file, ended })
    }

    /// The references to all pools, each with the name of its file.
    pub(crate) fn references(&self) -> Vec<(Arc<LivePool>, String)> {
        let pools = lock(&self.pools);
        let of_pool = |entry: &Entry| {
            let files = entry.references.iter().map(|it| it.file.clone());
            let pool = Arc::clone(&entry.pool);
            files
                .map(move |file| (Arc::clone(&pool), file))
                .collect::<Vec<_>>()
        };
        pools.values().flat_map(of_pool).collect()
    }

    /// The addresses and gateways of all pools.
    pub(crate) fn addresses(&self) -> Vec<(Arc<LivePool>, IpAddr, AddressFile)> {
        let pools = lock(&self.pools);
        let mut all = Vec::new();
        for entry in pools.values() {
            let files = entry.addresses.iter();
            let files = files.flat_map(|(ip, files)| files.iter().map(|file| (*ip, file.clone())));
            all.extend(files.map(|(ip, file)| (Arc::clone(&entry.pool), ip, file)));
        }
        all
    }

    /// Notes an address that an earlier daemon has given; false if its pool isn't there.
    /// If two files have one address, both are kept: their order proves nothing.
    #[must_use]
    pub(crate) fn recover(&self, pool: &str, ip: IpAddr, file: AddressFile) -> bool {
        let mut pools = lock(&self.pools);
        let Some(entry) = pools.get_mut(pool) else {
            return false;
        };
        if file.container_id.is_none() {
            entry.gateways.push(ip);
        }
        entry.addresses.entry(ip).or_default().push(file);
        true
    }

    /// Notes that Docker has an address of a pool. The chain gives an attachment's address
    /// again only if it was released: returns the attachments that were noted for it.
    ///
    /// # Errors
    ///
    /// The pool has ended meanwhile; nothing is noted.
    pub(crate) fn give(
        &self,
        pool: &Arc<LivePool>,
        ip: IpAddr,
        file: AddressFile,
    ) -> Result<Vec<AddressFile>, AddressFile> {
        let mut pools = lock(&self.pools);
        let entry = pools.get_mut(&pool.id);
        let Some(entry) = entry.filter(|it| Arc::ptr_eq(&it.pool, pool)) else {
            return Err(file);
        };
        let all = entry.addresses.entry(ip).or_default();
        let mut stale = Vec::new();
        match file.container_id {
            Some(_) => stale.extend(all.extract_if(.., |it| it.container_id.is_some())),
            None => entry.gateways.push(ip),
        }
        all.push(file);
        Ok(stale)
    }

    /// Takes an address away from Docker: the one with that file, or any.
    pub(crate) fn take(&self, id: &str, ip: IpAddr, file: Option<&str>) -> Option<AddressFile> {
        let mut pools = lock(&self.pools);
        let entry = pools.get_mut(id)?;
        let all = entry.addresses.get_mut(&ip)?;
        let i = match file {
            None => all.len().checked_sub(1)?,
            Some(file) => all.iter().position(|it| it.name == file)?,
        };
        let taken = all.remove(i);
        if all.is_empty() {
            entry.addresses.remove(&ip);
        }
        if taken.container_id.is_none()
            && let Some(i) = entry.gateways.iter().position(|it| *it == ip)
        {
            entry.gateways.remove(i);
        }
        Some(taken)
    }

    /// Notes that Docker has the address of this file.
    pub(crate) fn make_sure(&self, id: &str, ip: IpAddr, file: &str) {
        let mut pools = lock(&self.pools);
        let files = pools.get_mut(id).and_then(|it| it.addresses.get_mut(&ip));
        let mut files = files.into_iter().flatten();
        if let Some(found) = files.find(|it| it.name == file) {
            found.is_sure = true;
        }
    }

    /// The attachments that hold this address, as far as is known.
    pub(crate) fn holders(&self, id: &str, ip: IpAddr) -> Vec<ContainerId> {
        let pools = lock(&self.pools);
        let files = pools.get(id).and_then(|it| it.addresses.get(&ip));
        let files = files.into_iter().flatten();
        files.filter_map(|it| it.container_id.clone()).collect()
    }

    /// True if an attachment holds this address.
    pub(crate) fn is_held(&self, id: &str, ip: IpAddr) -> bool {
        !self.holders(id, ip).is_empty()
    }

    /// The gateway that Docker has had longest of a pool.
    pub(crate) fn gateway(&self, id: &str) -> Option<IpAddr> {
        lock(&self.pools).get(id)?.gateways.first().copied()
    }

    /// The attachments that hold addresses.
    pub(crate) fn container_ids(&self) -> Vec<ContainerId> {
        let pools = lock(&self.pools);
        let files = pools.values().flat_map(|it| it.addresses.values());
        let files = files.flatten();
        files.filter_map(|it| it.container_id.clone()).collect()
    }
}

fn each(addresses: HashMap<IpAddr, Vec<AddressFile>>) -> Vec<(IpAddr, AddressFile)> {
    let of_ip = |(ip, files): (IpAddr, Vec<AddressFile>)| files.into_iter().map(move |it| (ip, it));
    addresses.into_iter().flat_map(of_ip).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GATEWAY: &str = "10.1.0.1";

    fn state(references: &[(&str, bool)]) -> (State, Arc<LivePool>) {
        let state = State::default();
        let pool = crate::state::pool::tests::pool("10.1.0.0/16", None, None);
        for (file, is_sure) in references {
            state.refer(pool.clone(), file, *is_sure);
        }
        let pool = state.pool(&pool.id()).unwrap();
        (state, pool)
    }

    fn file(name: &str, container_id: Option<&str>) -> AddressFile {
        AddressFile {
            name: name.to_owned(),
            container_id: container_id.map(|it| it.parse().unwrap()),
            is_sure: true,
        }
    }

    /// Whether the pool has ended with a reference of this file.
    fn dropped(state: &State, pool: &LivePool) -> (String, bool) {
        let dropped = state.drop_reference(&pool.id, None, |_| ()).unwrap();
        (dropped.file, dropped.ended.is_some())
    }

    #[test]
    fn a_reference_that_docker_may_not_have_keeps_only_a_pool_that_is_used() {
        let (state, pool) = state(&[("1", true), ("2", false)]);
        let ip = GATEWAY.parse().unwrap();
        state.give(&pool, ip, file("g", None)).unwrap();
        // The other network's gateway.
        assert_eq!(dropped(&state, &pool), ("1".to_owned(), false));

        let (state, pool) = self::state(&[("1", false), ("2", true)]);
        assert_eq!(dropped(&state, &pool), ("2".to_owned(), true));
    }

    #[test]
    fn two_files_of_one_address_are_both_kept() {
        let (state, pool) = state(&[("1", true)]);
        let ip = "10.1.0.2".parse().unwrap();
        for (name, id) in [("b", "c2"), ("a", "c1")] {
            assert!(state.recover(&pool.id, ip, file(name, Some(id))));
        }
        assert_eq!(state.holders(&pool.id, ip).len(), 2);
        assert!(!state.recover("none", ip, file("c", Some("c3"))));
    }

    #[test]
    fn an_address_of_a_pool_that_has_ended_is_not_noted() {
        let (state, pool) = state(&[("1", true)]);
        let ip = "10.1.0.2".parse().unwrap();
        assert_eq!(state.give(&pool, ip, file("a", Some("c1"))), Ok(Vec::new()));
        let stale = state.give(&pool, ip, file("b", Some("c2"))).unwrap();
        assert_eq!(stale, [file("a", Some("c1"))]);
        dropped(&state, &pool);
        // Another pool of the same ID is not the same pool.
        state.refer(pool.pool.clone(), "2", true);
        let late = file("c", Some("c3"));
        assert_eq!(state.give(&pool, ip, late.clone()), Err(late));
    }
}

//! A pool that this process serves: its references, and the holders of its addresses.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use anyhow::{Result, ensure};
use cni::{ContainerId, Error, NetworkName};

use crate::ipam::held::{Held, Holder, Standing};
use crate::state::pool::{Pool, PoolChain};
use crate::threads::{Turns, lock};

/// Chains that run for one pool at once. More of them would wait for the same locks, and a pool
/// with hanging delegates must not keep other pools waiting.
const CHAINS_AT_ONCE: usize = 4;

/// A pool. It is live until its last reference is dropped.
pub(crate) struct LivePool {
    /// Its ID.
    pub(crate) id: String,
    /// The pool.
    pub(crate) pool: Pool,
    /// Its chain.
    pub(crate) chain: PoolChain,
    /// Turns of the chain's runs.
    pub(crate) turns: Turns,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    references: Vec<Reference>,
    /// The files of the last references of a pool that has ended. They stay as long as an address
    /// is held, or a call has the pool: they have the configuration.
    ended: Vec<String>,
    /// The uses of each address. The key is `None` if it is unknown which address is held.
    uses: HashMap<Option<IpAddr>, Vec<Use>>,
    /// The gateways that Docker has, by the names of their files: the oldest is the first.
    gateways: BTreeMap<String, IpAddr>,
}

/// A `RequestPool` whose `ReleasePool` has not come yet.
struct Reference {
    /// The name of its file.
    file: String,
    /// False if Docker may not have had the answer, since an earlier daemon was killed.
    is_sure: bool,
    since: Instant,
}

/// A use of an address.
struct Use {
    holder: Holder,
    standing: Standing,
    since: Instant,
}

/// A reference that was dropped.
pub(crate) struct Dropped {
    /// The files of references that nobody has any more.
    pub(crate) files: Vec<String>,
    /// The addresses to release, if the pool has ended.
    pub(crate) ended: Vec<Held>,
}

impl LivePool {
    /// A pool without references and held addresses.
    ///
    /// # Errors
    ///
    /// The pool's configuration is wrong.
    pub(crate) fn new(pool: Pool) -> Result<Arc<Self>, Error> {
        Ok(Arc::new(Self {
            id: pool.id(),
            chain: pool.chain()?,
            pool,
            turns: Turns::new(CHAINS_AT_ONCE),
            state: Mutex::default(),
        }))
    }

    /// The folder of its chain's records, and the name of the network in it.
    pub(crate) fn records(&self) -> (PathBuf, NetworkName) {
        let PoolChain { config, records } = &self.chain;
        (records.clone(), config.name().clone())
    }

    /// True until the last reference is dropped.
    pub(crate) fn is_live(&self) -> bool {
        lock(&self.state).ended.is_empty()
    }

    /// Adds a reference; false if the pool has ended.
    pub(crate) fn refer(&self, file: &str, is_sure: bool) -> bool {
        let mut state = lock(&self.state);
        let is_live = state.ended.is_empty();
        if is_live {
            state.references.push(Reference {
                file: file.to_owned(),
                is_sure,
                since: Instant::now(),
            });
        }
        is_live
    }

    /// Adds the last reference of a pool that has ended.
    pub(crate) fn refer_ended(&self, file: String) {
        lock(&self.state).ended.push(file);
    }

    /// The files of the references that existed at this time.
    pub(crate) fn references(&self, before: Instant) -> Vec<String> {
        let state = lock(&self.state);
        let old = state.references.iter().filter(|one| one.since <= before);
        old.map(|one| one.file.clone()).collect()
    }

    /// Drops the reference of this file, or any one. Before that, `note` gets the file's name.
    ///
    /// The pool ends with its last reference. It also ends if Docker has no address of it, not
    /// even a gateway, and may never have had the other references.
    pub(crate) fn drop_reference(
        self: &Arc<Self>,
        file: Option<&str>,
        note: impl FnOnce(&str),
    ) -> Option<Dropped> {
        let mut state = lock(&self.state);
        let references = &mut state.references;
        let index = match file {
            Some(file) => references.iter().position(|other| other.file == file),
            None => references
                .iter()
                .rposition(|reference| reference.is_sure)
                .or(references.len().checked_sub(1)),
        }?;
        note(&references[index].file);
        let file = references.remove(index).file;
        let has_sure = references.iter().any(|other| other.is_sure);
        let is_last = references.is_empty();
        let mut uses = state.uses.values().flatten();
        if !is_last && (has_sure || uses.any(Use::is_given)) {
            let files = vec![file];
            let ended = Vec::new();
            return Some(Dropped { files, ended });
        }
        let others = state.references.drain(..);
        let files = others.map(|other| other.file).collect();
        state.ended.push(file);
        let ended = self.begin(&mut state, Standing::Given);
        Some(Dropped { files, ended })
    }

    /// The addresses and gateways that Docker had at this time and still has, as far as is known.
    pub(crate) fn given(self: &Arc<Self>, before: Instant) -> Vec<Held> {
        let state = lock(&self.state);
        let mut all = Vec::new();
        for (ip, uses) in &state.uses {
            let is_old = |one: &&Use| one.is_given() && one.since <= before;
            all.extend(uses.iter().filter(is_old).map(|one| self.held(*ip, one)));
        }
        all
    }

    /// The attachments that hold this address for Docker, as far as is known.
    pub(crate) fn attachments(&self, ip: IpAddr) -> Vec<ContainerId> {
        let state = lock(&self.state);
        let uses = state.uses.get(&Some(ip)).into_iter().flatten();
        let dockers = uses.filter(|one| one.is_given());
        let ids = dockers.filter_map(|one| one.holder.container_id().cloned());
        ids.collect()
    }

    /// The gateway that Docker has had longest.
    pub(crate) fn gateway(&self) -> Option<IpAddr> {
        let state = lock(&self.state);
        state.gateways.first_key_value().map(|(_, ip)| *ip)
    }

    /// Begins the release of an address, for one of its uses: one that Docker has, or else one
    /// whose release waits or is running.
    pub(crate) fn begin_release(self: &Arc<Self>, ip: IpAddr) -> Option<Held> {
        let mut state = lock(&self.state);
        let uses = state.uses.get_mut(&Some(ip))?;
        let dockers = uses.iter().rposition(Use::is_given);
        let index = dockers.or(uses.len().checked_sub(1))?;
        uses[index].standing = Standing::Releasing;
        Some(self.held(Some(ip), &uses[index]))
    }

    /// Begins the releases that wait.
    pub(crate) fn begin_waiting(self: &Arc<Self>) -> Vec<Held> {
        self.begin(&mut lock(&self.state), Standing::Waiting)
    }

    /// Begins the release of all addresses of this standing.
    fn begin(self: &Arc<Self>, state: &mut State, standing: Standing) -> Vec<Held> {
        let mut all = Vec::new();
        for (ip, uses) in &mut state.uses {
            for one in uses.iter_mut().filter(|one| one.standing == standing) {
                one.standing = Standing::Releasing;
                all.push(self.held(*ip, one));
            }
        }
        all
    }

    /// The files of the last references, if the pool has ended and no address is held.
    pub(crate) fn unneeded(&self) -> Option<Vec<String>> {
        let state = lock(&self.state);
        let is_over = !state.ended.is_empty() && state.uses.is_empty();
        is_over.then(|| state.ended.clone())
    }

    fn held(self: &Arc<Self>, ip: Option<IpAddr>, one: &Use) -> Held {
        Held {
            pool: Arc::clone(self),
            ip,
            holder: one.holder.clone(),
        }
    }
}

impl Held {
    /// Notes an address that an earlier daemon has given, or was releasing, or an attachment with
    /// an unknown address. If two attachments have one address, both are kept: their order proves
    /// nothing.
    pub(crate) fn recover(self, standing: Standing) {
        let mut state = lock(&self.pool.state);
        let is_live = state.ended.is_empty();
        state.remove(None, &self.holder);
        state.put(&self, if is_live { standing } else { Standing::Waiting });
    }

    /// Notes that Docker has the address. The chain gives an address again only after its release,
    /// so other attachments that were noted for it are dropped.
    ///
    /// # Errors
    ///
    /// The pool has ended meanwhile; nothing is noted.
    pub(crate) fn give(&self) -> Result<()> {
        let mut state = lock(&self.pool.state);
        ensure!(state.ended.is_empty(), "it was released meanwhile");
        if let (Holder::Attachment(_), Some(uses)) = (&self.holder, state.uses.get_mut(&self.ip)) {
            uses.retain(|one| {
                let is_released = one.is_given() && one.holder.container_id().is_some();
                if is_released {
                    tracing::warn!(pool = self.pool.id, ip = ?self.ip, holder = ?one.holder, "was released without Docker");
                }
                !is_released
            });
        }
        state.put(self, Standing::Given);
        Ok(())
    }

    /// Begins the release; false if Docker doesn't have the address any more.
    pub(crate) fn begin_release(&self) -> bool {
        let mut state = lock(&self.pool.state);
        let mut uses = state.uses.get_mut(&self.ip).into_iter().flatten();
        let found = uses.find(|one| one.is_given() && one.holder == self.holder);
        found
            .map(|one| one.standing = Standing::Releasing)
            .is_some()
    }

    /// Ends a release. If it has failed, it waits.
    pub(crate) fn end_release(&self, is_released: bool) {
        let mut state = lock(&self.pool.state);
        state.remove(self.ip, &self.holder);
        if !is_released {
            state.put(self, Standing::Waiting);
        }
    }
}

impl Use {
    /// True if Docker has it, as far as is known.
    fn is_given(&self) -> bool {
        self.standing == Standing::Given
    }
}

impl State {
    fn put(&mut self, held: &Held, standing: Standing) {
        if let (Holder::Gateway(file), Some(ip)) = (&held.holder, held.ip) {
            self.gateways.insert(file.clone(), ip);
        }
        self.uses.entry(held.ip).or_default().push(Use {
            holder: held.holder.clone(),
            standing,
            since: Instant::now(),
        });
    }

    fn remove(&mut self, ip: Option<IpAddr>, holder: &Holder) {
        if let Holder::Gateway(file) = holder {
            self.gateways.remove(file);
        }
        if let Some(uses) = self.uses.get_mut(&ip) {
            uses.retain(|one| one.holder != *holder);
            if uses.is_empty() {
                self.uses.remove(&ip);
            }
        }
    }
}

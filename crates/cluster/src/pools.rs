//! The pools of a call: entries of `prevResult.pools`, with the store's definitions of those that have
//! only a name.
//!
//! An entry's own keys have precedence over its definition's, except that the exclusions of both count,
//! and that only the definition can name a space. Once read, an entry is an [`Overflow`], as in every
//! allocator; [`CallPools`] adds its keys and its owner.

use std::net::IpAddr;

use cni::{Error, IfName, NetworkConfig, NetworkName, Object};
use ipam::{ADDRESS_KEYS, Overflow, Pool, PoolName, Pools, overflow};

use crate::repetition::until_answered;
use crate::{AddressKey, Holder, Owner, Store};

/// The pools of an entry of the call: the first one that has an address yields it.
pub(crate) struct CallPools<'c> {
    overflow: Overflow,
    network: &'c NetworkName,
    /// Its index among the entries of the call.
    index: usize,
}

/// A pool of a call.
#[derive(Clone, Copy)]
pub(crate) struct CallPool<'p> {
    pub(crate) pool: &'p Pool,
    entry: &'p CallPools<'p>,
}

impl<'c> CallPools<'c> {
    /// Reads the pools of a call.
    ///
    /// # Errors
    ///
    /// As [`Self::complete`].
    pub(crate) fn read(
        store: &mut dyn Store,
        config: &'c NetworkConfig,
    ) -> Result<Vec<Self>, Error> {
        Self::complete(store, Pools::of_call(config)?, config)
    }

    /// Reads pools of a call, with the definitions of those that have only a name.
    ///
    /// # Errors
    ///
    /// Code 7 for an invalid pool, for a name without a definition, and for pools that overlap;
    /// those of the store.
    pub(crate) fn complete(
        store: &mut dyn Store,
        pools: Pools,
        config: &'c NetworkConfig,
    ) -> Result<Vec<Self>, Error> {
        let mut entries = pools.into_entries();
        for (i, entry) in entries.iter_mut().enumerate() {
            complete_all(store, entry, &format!("prevResult.pools[{i}]"))?;
        }
        let read = Pools::new(entries).read(config)?.into_iter().enumerate();
        let of_entry = |(index, overflow)| Self {
            overflow,
            network: config.name(),
            index,
        };
        Ok(read.map(of_entry).collect())
    }

    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = CallPool<'_>> {
        self.each(self.overflow.all())
    }

    /// Those that an ADD tries, in this order: all, or the one of the requested address.
    pub(crate) fn tried(&self) -> impl Iterator<Item = CallPool<'_>> {
        self.each(self.overflow.tried())
    }

    fn each<'p>(&'p self, pools: &'p [Pool]) -> impl Iterator<Item = CallPool<'p>> {
        pools.iter().map(|pool| CallPool { pool, entry: self })
    }

    /// The holder of their owner's addresses for this interface, with the first pool's name; `None`
    /// without an owner.
    pub(crate) fn owner(&self, ifname: &IfName) -> Option<Holder> {
        self.all().next()?.owner(ifname)
    }

    /// Refuses pools that have no address to give even if nothing is reserved.
    ///
    /// # Errors
    ///
    /// Code 50: all of their addresses are excluded, and none is requested.
    pub(crate) fn refuse_empty(&self) -> Result<(), Error> {
        self.overflow.refuse_empty(self.network, self.index)
    }

    /// The error, of this code, that none has an address left.
    pub(crate) fn exhausted(&self, code: u64) -> Error {
        self.overflow.exhausted(self.network, self.index, code)
    }
}

impl<'p> CallPool<'p> {
    /// Its name, or the network's if it has none.
    pub(crate) fn name(self) -> &'p str {
        let name = self.pool.name.as_ref();
        name.map_or(self.entry.network.as_str(), PoolName::as_str)
    }

    /// The key of one of its addresses.
    pub(crate) fn key(self, ip: IpAddr) -> AddressKey {
        AddressKey::of(self.pool, ip)
    }

    /// True if it gives the address of this key, or if that one is requested of it.
    pub(crate) fn gives(self, key: &AddressKey) -> bool {
        let is_requested = self.pool.requested == Some(key.ip);
        self.pool.space == key.space && (is_requested || self.pool.ranges.gives(key.ip))
    }

    /// The holder of its owner's addresses for this interface; `None` without an owner.
    pub(crate) fn owner(self, ifname: &IfName) -> Option<Holder> {
        let owner = Owner {
            name: self.pool.owner.clone()?,
            place: self.entry.index,
        };
        let network = self.entry.network.as_str();
        Some(Holder::of_owner(owner, network, ifname, self.name()))
    }

    /// The pool, for messages.
    pub(crate) fn describe(self) -> String {
        let CallPools { network, index, .. } = self.entry;
        self.pool.describe(network, *index)
    }
}

/// The address spaces of `prevResult.pools`, once each. An entry without one, or with a definition
/// in the store, counts as one without.
pub(crate) fn spaces(pools: &Pools) -> Vec<Option<NetworkName>> {
    let mut spaces = vec![None];
    for (path, pool) in pools.each() {
        let space = pool.read(&path, "space").unwrap_or_default();
        if !spaces.contains(&space) {
            spaces.push(space);
        }
    }
    spaces
}

/// Completes an entry, and each pool of its `or`, that has a name and no ranges with the store's
/// definition.
///
/// # Errors
///
/// Code 7 if there is no definition, or an invalid one; those of the store.
pub(crate) fn complete_all(
    store: &mut dyn Store,
    entry: &mut Object,
    path: &str,
) -> Result<(), Error> {
    complete(store, entry, path)?;
    let mut or = overflow::objects(path, entry)?;
    for (i, pool) in or.iter_mut().enumerate() {
        complete(store, pool, &format!("{path}.or[{i}]"))?;
    }
    overflow::set_objects(entry, &or);
    Ok(())
}

/// Completes a pool that has a name and no ranges.
fn complete(store: &mut dyn Store, entry: &mut Object, path: &str) -> Result<(), Error> {
    let name = entry.read::<PoolName>(path, "name")?;
    let Some(name) = name.filter(|_| !Pool::has_ranges(entry)) else {
        return Ok(());
    };
    let definition = until_answered(store, |store| store.pool(name.as_str()))?;
    let place = store.path_of_pool(name.as_str());
    let Some(definition) = definition else {
        return Err(Error::config(format!(
            "{path}.name: {} has no pool {:?}: {place} is missing",
            store.name(),
            name.as_str()
        )));
    };
    let has_own = |entry: &Object, key| entry.get(key).is_some_and(|raw| raw.get() != "null");
    // Two nodes would have two names for one address.
    if has_own(entry, "space") {
        return Err(Error::config(format!(
            "{path}.space: {place} defines the pool, and its space; an entry without ranges has none"
        )));
    }
    // Messages then name the definition.
    Pool::read(&place, definition.clone())?;
    let mut excluded: Vec<String> = definition.read(&place, "exclude")?.unwrap_or_default();
    let own: Option<Vec<String>> = entry.read(path, "exclude")?;
    excluded.extend(own.into_iter().flatten());
    for key in ADDRESS_KEYS.iter().chain(&["ranges", "exclude", "space"]) {
        if let Some(raw) = definition.get(key).filter(|_| !has_own(entry, key)) {
            entry.set_raw(key, raw.to_owned());
        }
    }
    if !excluded.is_empty() {
        entry.set("exclude", &excluded);
    }
    Ok(())
}

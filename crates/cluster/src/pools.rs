//! The pools of a call: entries of `prevResult.pools`, with the store's definitions of those that
//! have only a name.

use cni::{Error, NetworkConfig, NetworkName, Object};
use ipam::{Pool, Pools};

use crate::repetition::until_answered;
use crate::{AddressKey, Among, PoolAddresses, Store};

/// Keys of a definition that are copied into an entry which has only a name.
const DEFINITION_KEYS: [&str; 7] = [
    "ranges",
    "subnet",
    "rangeStart",
    "rangeEnd",
    "gateway",
    "exclude",
    "space",
];

/// A pool of a call.
#[derive(Clone, Debug)]
pub(crate) struct NamedPool {
    pub(crate) pool: Pool,
    /// Its name, or the network's if it has none.
    pub(crate) name: String,
    pub(crate) space: Option<NetworkName>,
    network: NetworkName,
    /// Its index among the pools of the call.
    index: usize,
}

impl NamedPool {
    /// Reads the pools of a call.
    ///
    /// # Errors
    ///
    /// As [`Self::complete`].
    pub(crate) fn read(store: &mut dyn Store, config: &NetworkConfig) -> Result<Vec<Self>, Error> {
        Self::complete(store, Pools::of_call(config)?, config.name())
    }

    /// Reads pools of a call of this network, with the definitions of those that have only a name.
    ///
    /// # Errors
    ///
    /// Code 7 for an invalid pool, for a name without a definition, and for pools that overlap;
    /// those of the store.
    pub(crate) fn complete(
        store: &mut dyn Store,
        pools: Pools,
        network: &NetworkName,
    ) -> Result<Vec<Self>, Error> {
        let mut entries = pools.into_entries();
        for (i, entry) in entries.iter_mut().enumerate() {
            if !Pool::has_ranges(entry) {
                let path = format!("prevResult.pools[{i}]");
                complete(store, entry, &path)?;
            }
        }
        let pools = Pools::new(entries).read()?.into_iter().enumerate();
        pools
            .map(|(index, pool)| {
                let path = format!("prevResult.pools[{index}]");
                let name = pool.name.as_ref();
                Ok(Self {
                    name: name
                        .map_or(network.as_str(), |name| name.as_str())
                        .to_owned(),
                    space: space(pool.get("space"), &path)?,
                    network: network.clone(),
                    index,
                    pool,
                })
            })
            .collect()
    }

    /// The key of one of its addresses.
    pub(crate) fn key(&self, ip: std::net::IpAddr) -> AddressKey {
        AddressKey {
            space: self.space.clone(),
            ip: self.pool.ranges.in_family(ip),
        }
    }

    /// Some of its addresses, for a list.
    pub(crate) fn addresses<'a>(&'a self, among: Among<'a>) -> PoolAddresses<'a> {
        PoolAddresses {
            space: self.space.as_ref(),
            ranges: &self.pool.ranges,
            among,
        }
    }

    /// The pool, for messages.
    pub(crate) fn describe(&self) -> String {
        self.pool.describe(&self.network, self.index)
    }

    /// The error, of this code, that it has no address left.
    pub(crate) fn exhausted(&self, code: u64) -> Error {
        self.pool.exhausted(&self.network, self.index, code)
    }
}

/// The key `space` of an entry or a definition.
fn space(
    raw: Option<&serde_json::value::RawValue>,
    path: &str,
) -> Result<Option<NetworkName>, Error> {
    let raw = raw.filter(|raw| raw.get() != "null");
    raw.map(|raw| cni::read(&format!("{path}.space"), raw))
        .transpose()
}

/// The address spaces of `prevResult.pools`, once each. An entry without one, or with a definition
/// in the store, counts as one without.
pub(crate) fn spaces(entries: &[Object]) -> Vec<Option<NetworkName>> {
    let mut spaces = vec![None];
    for entry in entries {
        let space = entry.read("prevResult.pools", "space").unwrap_or_default();
        if !spaces.contains(&space) {
            spaces.push(space);
        }
    }
    spaces
}

/// Completes an entry that has a name and no ranges with the store's definition.
///
/// # Errors
///
/// Code 7 if there is no definition, or an invalid one; those of the store.
fn complete(store: &mut dyn Store, entry: &mut Object, path: &str) -> Result<(), Error> {
    let Some(name) = entry.read::<ipam::PoolName>(path, "name")? else {
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
    excluded.extend(
        entry
            .read::<Vec<String>>(path, "exclude")?
            .unwrap_or_default(),
    );
    for key in DEFINITION_KEYS {
        if let Some(raw) = definition.get(key).filter(|_| !has_own(entry, key)) {
            entry.set_raw(key, raw.to_owned());
        }
    }
    if !excluded.is_empty() {
        entry.set("exclude", &excluded);
    }
    Ok(())
}

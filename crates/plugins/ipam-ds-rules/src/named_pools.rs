//! The pools of a catalogue by their names, and what its rules pin in them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use cni::{Error, NetworkConfig, Object};
use ipam::{Disjoint, Interval, Pool, Pools};

use crate::pool::CataloguePool;

/// All pools of a catalogue.
#[derive(Clone, Debug, Default)]
pub(crate) struct NamedPools {
    /// In the order of their definitions.
    pub(crate) pools: Vec<CataloguePool>,
    /// Index of the pool of each name.
    by_name: BTreeMap<String, usize>,
    /// Index of the pool of each address.
    by_address: Disjoint,
    /// The addresses that rules request by a text without facts, or for replicas. Each pool gives
    /// them on a rule's request only.
    pub(crate) pinned: Vec<Interval>,
    /// Where pools are looked for, for messages.
    places: String,
}

impl NamedPools {
    /// No pools yet; `places` is where they are looked for, for messages.
    pub(crate) fn new(places: String) -> Self {
        Self {
            places,
            ..Self::default()
        }
    }

    /// The entry of each pool in a result's `pools`, in the order of their names.
    ///
    /// # Errors
    ///
    /// As [`CataloguePool::entry`].
    pub(crate) fn entries(&self) -> Result<Vec<Object>, Error> {
        let pools = self.by_name.values().map(|at| &self.pools[*at]);
        pools.map(|pool| pool.entry(&self.pinned)).collect()
    }

    /// Reads and adds a pool.
    ///
    /// # Errors
    ///
    /// Code 7: it is invalid, its name is defined twice, or it overlaps with another one.
    pub(crate) fn add(&mut self, path: String, name: &str, written: Object) -> Result<(), Error> {
        let at = self.pools.len();
        match self.by_name.entry(name.to_owned()) {
            Entry::Vacant(entry) => entry.insert(at),
            Entry::Occupied(entry) => {
                let earlier = &self.pools[*entry.get()].path;
                return Err(Error::config(format!(
                    "{path} is defined twice, the first time as {earlier}"
                )));
            }
        };
        let pool = CataloguePool::read(path, name, written)?;
        if let Some(ranges) = &pool.ranges
            && let Err(earlier) = self.by_address.add(ranges, at)
        {
            let earlier = &self.pools[earlier];
            let other = earlier.ranges.as_ref();
            let other = other.expect("a pool that overlaps has ranges");
            return Err(Error::config(format!(
                "{}: {ranges} overlaps {other} of {}",
                pool.path, earlier.path
            )));
        }
        self.pools.push(pool);
        Ok(())
    }

    /// The pool of this name.
    ///
    /// # Errors
    ///
    /// Where it isn't.
    pub(crate) fn named(&self, name: &str) -> Result<&CataloguePool, String> {
        let pool = self.by_name.get(name).map(|at| &self.pools[*at]);
        pool.ok_or_else(|| format!("there is no pool {name:?} in {}", self.places))
    }

    /// Refuses a pool of `prevResult` that overlaps with any pool of the catalogue. Otherwise an
    /// address of both would be given twice, and a pinned address would not be protected.
    ///
    /// # Errors
    ///
    /// Code 7, naming both pools.
    pub(crate) fn refuse_overlaps(&self, config: &NetworkConfig) -> Result<(), Error> {
        for (path, entry) in Pools::of_call(config)?.each() {
            if !Pool::has_ranges(&entry) {
                continue;
            }
            let ranges = ipam::ranges_of_pool(&path, &entry)?;
            if let Err(at) = self.by_address.clone().add(&ranges, 0) {
                let ours = &self.pools[at].name;
                return Err(Error::config(format!(
                    "{path}: {ranges} overlaps pool {ours} of the catalogue"
                )));
            }
        }
        Ok(())
    }
}

//! The pools of an allocator's call. Those without ranges are looked up in the engine by name.

use cni::{Error, NetworkConfig, Object};
use ipam::{Pool, PoolName};

use super::definition::Definition;
use crate::{Condition, Engine, Key, Read};

/// Most pools that are looked up in one request.
const AT_ONCE: usize = 100;

/// `prevResult.pools` of a call.
#[derive(Clone, Debug)]
pub(crate) struct AskedPools {
    entries: Vec<Object>,
    /// Indexes of the entries to look up, with their names.
    wanted: Vec<(usize, PoolName)>,
}

/// The values of the definitions in the engine; `None` for a missing one.
pub(crate) type Values = Vec<Option<Vec<u8>>>;

impl AskedPools {
    /// Reads `prevResult.pools`.
    ///
    /// # Errors
    ///
    /// Code 7 if it isn't a list of pools, or for an invalid name.
    pub(crate) fn read(config: &NetworkConfig) -> Result<Self, Error> {
        let entries = ipam::pool_objects(config)?;
        let mut wanted = Vec::new();
        for (i, entry) in entries.iter().enumerate() {
            if !ipam::has_ranges(entry)
                && let Some(name) = entry.read(&format!("prevResult.pools[{i}]"), "name")?
            {
                wanted.push((i, name));
            }
        }
        Ok(Self { entries, wanted })
    }

    /// The names to look up.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.wanted.iter().map(|(_, name)| name.as_str())
    }

    /// Reads of the definitions, in the order of the names.
    pub(crate) fn reads(&self) -> impl Iterator<Item = Read> {
        self.names()
            .map(|name| Read::Get(Key::Pool(name.to_owned())))
    }

    /// Reads the definitions from the engine.
    ///
    /// # Errors
    ///
    /// Those of the engine.
    pub(crate) fn fetch(&self, engine: &mut dyn Engine) -> Result<Values, Error> {
        let reads: Vec<Read> = self.reads().collect();
        let mut values = Values::with_capacity(reads.len());
        for chunk in reads.chunks(AT_ONCE) {
            let found = engine.read(chunk)?.into_iter();
            values
                .extend(found.map(|found| found.objects.into_iter().next().map(|pool| pool.value)));
        }
        Ok(values)
    }

    /// The conditions that the engine has these definitions.
    pub(crate) fn are_unchanged(&self, values: &Values) -> Vec<Condition> {
        let both = self.names().zip(values);
        let is = |(name, value): (&str, &Option<Vec<u8>>)| {
            Some(Condition::Value(Key::Pool(name.to_owned()), value.clone()?))
        };
        both.filter_map(is).collect()
    }

    /// The pools, with the ranges of these definitions.
    ///
    /// # Errors
    ///
    /// Code 7 for an invalid pool, for one without a name and ranges, and for a name whose
    /// definition is missing, invalid, or has `block`.
    pub(crate) fn pools(&self, engine: &dyn Engine, values: &Values) -> Result<Vec<Pool>, Error> {
        let mut entries = self.entries.clone();
        for ((i, name), value) in self.wanted.iter().zip(values) {
            let path = engine.path(&Key::Pool(name.as_str().to_owned()));
            let Some(value) = value else {
                return Err(Error::config(format!(
                    "prevResult.pools[{i}].name: {} has no pool {:?}: {path} is missing; ipamctl import defines pools",
                    engine.name(),
                    name.as_str()
                )));
            };
            let definition = Definition::parse(&path, value)?;
            if let Some(block) = definition.block {
                // An address would be given twice: by itself, and in a block.
                return Err(Error::config(format!(
                    "{path}.block: {block}: this pool is given in blocks, by ipam-ds-{} before ipam-da-host-local",
                    engine.name()
                )));
            }
            definition.complete(&mut entries[*i]);
        }
        ipam::read_pools(entries)
    }
}

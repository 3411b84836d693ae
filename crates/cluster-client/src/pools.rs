//! Looks up the definitions of an allocator's pools.

use cluster::{Definition, Keys};
use cni::{Error, NetworkConfig, Object};
use etcd::{Client, Range, RangeAnswer, Txn};
use ipam::{Pool, PoolName};

/// Pools that are looked up in one request.
const AT_ONCE: usize = 100;

/// `prevResult.pools` of a call: those without ranges are looked up by their names.
#[derive(Clone, Debug)]
pub struct Asked {
    entries: Vec<Object>,
    /// Indexes of the entries to look up, with their names.
    wanted: Vec<(usize, PoolName)>,
}

/// The values of etcd's keys of the pools to look up; `None` for one that is missing.
pub type Values = Vec<Option<Vec<u8>>>;

impl Asked {
    /// Reads `prevResult.pools`.
    ///
    /// # Errors
    ///
    /// Code 7 for what is no list of pools, and for an invalid name.
    pub fn read(config: &NetworkConfig) -> Result<Self, Error> {
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
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.wanted.iter().map(|(_, name)| name.as_str())
    }

    /// Reads of the definitions, in the order of the names.
    pub fn reads(&self, keys: &Keys) -> impl Iterator<Item = Range> {
        self.names().map(|name| Range::key(keys.pool(name)))
    }

    /// The values in the answers to [`Self::reads`].
    pub fn values<'r>(&self, answers: impl Iterator<Item = &'r RangeAnswer>) -> Values {
        let values = answers.take(self.wanted.len());
        values
            .map(|it| it.kvs.first().map(|kv| kv.value.clone()))
            .collect()
    }

    /// Reads the definitions from etcd.
    ///
    /// # Errors
    ///
    /// Those of etcd.
    pub fn fetch(&self, client: &mut Client<'_>, keys: &Keys) -> Result<Values, Error> {
        let reads: Vec<Range> = self.reads(keys).collect();
        let mut values = Values::with_capacity(reads.len());
        for chunk in reads.chunks(AT_ONCE) {
            let answer = client.txn(&Txn::read(chunk.iter().cloned()))?;
            values.extend(self.values(answer.ranges()));
        }
        Ok(values)
    }

    /// The pools, with the ranges of these definitions.
    ///
    /// # Errors
    ///
    /// Code 7 for an invalid pool, one without a name and without ranges, and a name that
    /// etcd doesn't know or holds no valid definition of, or that is given in blocks.
    pub fn pools(&self, keys: &Keys, values: &Values) -> Result<Vec<Pool>, Error> {
        let mut entries = self.entries.clone();
        for ((i, name), value) in self.wanted.iter().zip(values) {
            let key = keys.pool(name.as_str());
            let Some(value) = value else {
                return Err(Error::config(format!(
                    "prevResult.pools[{i}].name: etcd has no pool {:?}: {key} is missing",
                    name.as_str()
                )));
            };
            let definition =
                Definition::parse(&key, value).map_err(|why| Error::config(why.to_string()))?;
            if let Some(block) = definition.block {
                // An address would be given twice: by itself here, and in a block there.
                return Err(Error::config(format!(
                    "{key}.block: {block}: this pool is given in blocks, by ipam-ds-etcd before ipam-da-host-local"
                )));
            }
            definition.complete(&mut entries[*i]);
        }
        ipam::read_pools(entries)
    }
}

/// The pools of a call, looked up in etcd.
///
/// # Errors
///
/// Those of [`Asked`], and of etcd.
pub fn pools(
    client: &mut Client<'_>,
    keys: &Keys,
    config: &NetworkConfig,
) -> Result<Vec<Pool>, Error> {
    let asked = Asked::read(config)?;
    let values = asked.fetch(client, keys)?;
    asked.pools(keys, &values)
}

//! Looks up the definitions of an allocator's pools.

use cluster::{Definition, Keys};
use cni::{Error, NetworkConfig};
use etcd::{Client, Range, Txn};
use ipam::{Pool, PoolName};

/// Pools that are looked up in one request.
const AT_ONCE: usize = 100;

/// `prevResult.pools`; those without ranges are looked up by their names.
///
/// # Errors
///
/// Code 7 for an invalid pool, one without a name and without ranges, and a name that etcd
/// doesn't know or holds no valid definition of, or that is given in blocks; and those of
/// etcd.
pub fn pools(
    client: &mut Client<'_>,
    keys: &Keys,
    config: &NetworkConfig,
) -> Result<Vec<Pool>, Error> {
    let mut entries = ipam::pool_objects(config)?;
    let mut wanted: Vec<(usize, PoolName)> = Vec::new();
    for (i, entry) in entries.iter().enumerate() {
        if !ipam::has_ranges(entry)
            && let Some(name) = entry.read(&format!("prevResult.pools[{i}]"), "name")?
        {
            wanted.push((i, name));
        }
    }
    for chunk in wanted.chunks(AT_ONCE) {
        let names = chunk
            .iter()
            .map(|(_, name)| Range::key(keys.pool(name.as_str())));
        let answer = client.txn(&Txn::read(names))?;
        for ((i, name), range) in chunk.iter().zip(answer.ranges()) {
            let key = keys.pool(name.as_str());
            let Some(found) = range.kvs.first() else {
                return Err(Error::config(format!(
                    "prevResult.pools[{i}].name: etcd has no pool {:?}: {key} is missing",
                    name.as_str()
                )));
            };
            let definition = Definition::parse(&key, &found.value)
                .map_err(|why| Error::config(why.to_string()))?;
            if let Some(block) = definition.block {
                // An address would be given twice: by itself here, and in a block there.
                return Err(Error::config(format!(
                    "{key}.block: {block}: this pool is given in blocks, by ipam-ds-etcd before ipam-da-host-local"
                )));
            }
            definition.complete(&mut entries[*i]);
        }
    }
    ipam::read_pools(entries)
}

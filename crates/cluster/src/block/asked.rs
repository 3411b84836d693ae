//! A pool of a call: the selector's entry, and the entry for the allocator.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::path::Path;

use cni::{Error, NetworkConfig, Object};
use ipam::{IpNet, Pool, PoolName};

use super::layout::ranges_in;
use super::pool_file::PoolFile;
use crate::Definition;

/// Keys of an entry that the ranges of the node's blocks replace.
const RANGE_KEYS: [&str; 5] = ["ranges", "subnet", "rangeStart", "rangeEnd", "gateway"];

/// An entry of `prevResult.pools` from the selector before.
#[derive(Clone, Debug)]
pub(crate) struct AskedPool {
    /// The pool's name; the network's name if the entry has none.
    pub(crate) name: String,
    /// `requested-ip`.
    pub(crate) requested: Option<IpAddr>,
    entry: Object,
}

/// The entries of `prevResult.pools`.
///
/// # Errors
///
/// Code 7, naming the key and the value: an invalid name or address, or a duplicate pool.
pub(crate) fn asked_pools(config: &NetworkConfig) -> Result<Vec<AskedPool>, Error> {
    let entries = ipam::pool_objects(config)?.into_iter().enumerate();
    let mut seen = BTreeSet::new();
    let read = |(i, entry): (usize, Object)| {
        let path = format!("prevResult.pools[{i}]");
        let name: Option<PoolName> = entry.read(&path, "name")?;
        let name = name
            .as_ref()
            .map_or(config.name().as_str(), PoolName::as_str);
        if !seen.insert(name.to_owned()) {
            return Err(Error::config(format!(
                "{path}.name: pool {name:?} is asked for twice"
            )));
        }
        let requested: Option<String> = entry.read(&path, "requested-ip")?;
        let parse = |text: String| {
            ipam::parse_address(&text).ok_or_else(|| {
                Error::config(format!("{path}.requested-ip: {text:?} is no IP address"))
            })
        };
        Ok(AskedPool {
            name: name.to_owned(),
            requested: requested.map(parse).transpose()?,
            entry,
        })
    };
    entries.map(read).collect()
}

impl AskedPool {
    /// The entry for the allocator, with the node's blocks as its ranges.
    pub(crate) fn with_blocks(
        &self,
        definition: &Definition,
        blocks: impl Iterator<Item = IpNet>,
    ) -> Object {
        let mut entry = self.entry.clone();
        let remove_ranges = |entry: &mut Object| {
            for key in RANGE_KEYS {
                entry.remove(key);
            }
        };
        // `complete` adds the definition's exclusions to the selector's; the ranges of both are
        // removed.
        remove_ranges(&mut entry);
        definition.complete(&mut entry);
        remove_ranges(&mut entry);
        let ranges: Vec<Object> = blocks
            .flat_map(|block| ranges_in(&definition.pool.ranges, block))
            .collect();
        entry.set("name", &self.name);
        entry.set("ranges", &ranges);
        entry
    }

    /// The same entry without `requested-ip`.
    pub(crate) fn without_request(
        &self,
        definition: &Definition,
        blocks: impl Iterator<Item = IpNet>,
    ) -> Object {
        let mut entry = self.with_blocks(definition, blocks);
        entry.remove("requested-ip");
        entry
    }

    /// Number of free addresses in the node's blocks, by the allocator's files.
    ///
    /// # Errors
    ///
    /// Code 5 if their directory can't be read.
    pub(crate) fn free(&self, definition: &Definition, file: &PoolFile) -> Result<u128, Error> {
        if file.used().next().is_none() {
            return Ok(0);
        }
        // The requested address may be in a block that the node has not claimed.
        let entry = self.without_request(definition, file.used());
        let ranges = Pool::read("the node's blocks", entry)?.ranges;
        let reserved = reserved(file.data_dir(), &self.name)?;
        let taken = reserved.iter().filter(|ip| ranges.gives(**ip)).count();
        Ok(ranges.capacity().saturating_sub(taken as u128))
    }
}

/// The addresses of a pool that the allocator's files reserve on this node.
///
/// # Errors
///
/// Code 5 if their directory can't be read.
pub fn reserved(data_dir: &Path, pool: &str) -> Result<Vec<IpAddr>, Error> {
    let directory = data_dir.join(pool);
    match reservations::view::with_a_file(&directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        other => other.map_err(|error| Error::io(directory.display(), error)),
    }
}

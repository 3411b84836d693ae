//! A pool of a call: what its selector asked for, what the node holds of it, and the entry
//! that the allocator gets.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::path::Path;

use cluster::{Definition, ranges_in};
use cni::{Error, NetworkConfig, Object};
use ipam::{IpNet, Pool, PoolName};

use crate::Local;

/// An entry of `prevResult.pools`, as the selector before wrote it.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Its name; without one, the network's.
    pub name: String,
    /// `requested-ip`.
    pub requested: Option<IpAddr>,
    entry: Object,
}

/// The entries of `prevResult.pools`.
///
/// # Errors
///
/// Code 7, naming the key and the value: a name or an address that is none, and a pool that
/// is there twice.
pub fn asked(config: &NetworkConfig) -> Result<Vec<Asked>, Error> {
    let entries = ipam::pool_objects(config)?.into_iter().enumerate();
    let mut seen = BTreeSet::new();
    let read = |(i, entry): (usize, Object)| {
        let path = format!("prevResult.pools[{i}]");
        let name: Option<PoolName> = entry.read(&path, "name")?;
        let name = name.map_or(config.name().as_str().to_owned(), |it| {
            it.as_str().to_owned()
        });
        if !seen.insert(name.clone()) {
            return Err(Error::config(format!(
                "{path}.name: pool {name:?} is asked for twice"
            )));
        }
        let requested: Option<String> = entry.read(&path, "requested-ip")?;
        let requested = requested
            .map(|text| {
                ipam::parse_address(&text).ok_or_else(|| {
                    Error::config(format!("{path}.requested-ip: {text:?} is no IP address"))
                })
            })
            .transpose()?;
        Ok(Asked {
            name,
            requested,
            entry,
        })
    };
    entries.map(read).collect()
}

impl Asked {
    /// The entry for the allocator: the node's blocks in the place of the pool's ranges.
    pub fn with_blocks(
        &self,
        definition: &Definition,
        blocks: impl Iterator<Item = IpNet>,
    ) -> Object {
        let mut entry = self.entry.clone();
        for key in ["ranges", "subnet", "rangeStart", "rangeEnd", "gateway"] {
            entry.remove(key);
        }
        // What the pool excludes, and what the selector excludes besides.
        definition.complete(&mut entry);
        for key in ["ranges", "subnet", "rangeStart", "rangeEnd", "gateway"] {
            entry.remove(key);
        }
        let ranges: Vec<Object> = blocks
            .flat_map(|block| ranges_in(&definition.pool.ranges, block))
            .collect();
        entry.set("name", &self.name);
        entry.set("ranges", &ranges);
        entry
    }

    /// Number of addresses that are free in these blocks, by the allocator's files.
    ///
    /// # Errors
    ///
    /// Code 5 if its directory can't be read.
    pub fn free(
        &self,
        definition: &Definition,
        local: &Local,
        data_dir: &Path,
    ) -> Result<u128, Error> {
        // Without what is requested: that may lie in a block that isn't the node's yet.
        let mut entry = self.with_blocks(definition, local.used());
        entry.remove("requested-ip");
        if local.used().next().is_none() {
            return Ok(0);
        }
        let ranges = Pool::read("the node's blocks", entry)?.ranges;
        let reserved = reserved(data_dir, &self.name)?;
        let taken = reserved.iter().filter(|ip| ranges.gives(**ip)).count();
        Ok(ranges.capacity().saturating_sub(taken as u128))
    }
}

/// The addresses of a pool that the allocator's files reserve on this node.
///
/// # Errors
///
/// Code 5 if its directory can't be read.
pub fn reserved(data_dir: &Path, pool: &str) -> Result<Vec<IpAddr>, Error> {
    let directory = data_dir.join(pool);
    match reservations::view::with_a_file(&directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        other => other.map_err(|error| Error::io(directory.display(), error)),
    }
}

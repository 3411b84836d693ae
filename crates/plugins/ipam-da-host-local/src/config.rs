//! The pools that a selector has put into `prevResult`, each with its directory.

use std::collections::BTreeSet;
use std::net::IpAddr;

use cni::{Error, NetworkConfig, NetworkName, code};
use ipam::Pool;

/// A pool, and the directory in which its reservations are kept.
#[derive(Clone, Debug)]
pub(crate) struct PlacedPool {
    pub(crate) pool: Pool,
    pub(crate) directory: NetworkName,
    /// [`Pool::rotation_index`].
    pub(crate) rotation: usize,
}

impl PlacedPool {
    /// The pool by name, for people.
    pub(crate) fn describe(&self, index: usize) -> String {
        self.pool.describe(&self.directory, index)
    }

    /// The error that a requested address of the pool is reserved.
    pub(crate) fn taken(&self, ip: IpAddr, index: usize, by: &str) -> Error {
        let pool = self.describe(index);
        let msg = format!("{ip}, requested of {pool}, is reserved already{by}");
        Error::new(code::REQUESTED_TAKEN, msg)
    }

    /// The error, of this code, that the pool has no address left.
    pub(crate) fn exhausted(&self, index: usize, code: u64) -> Error {
        self.pool.exhausted(&self.directory, index, code)
    }
}

/// `prevResult.pools`, each with its directory: of its own name, or of the
/// network's. Empty if no selector has put any there.
///
/// # Errors
///
/// Code 7, naming the key and the value, for an invalid pool, and for two that overlap.
pub(crate) fn pools(config: &NetworkConfig) -> Result<Vec<PlacedPool>, Error> {
    let placed = |(place, pool): (usize, Pool)| PlacedPool {
        rotation: pool.rotation_index(config.name(), place),
        directory: pool.directory(config.name()).clone(),
        pool,
    };
    let pools = ipam::pools(config)?.into_iter().enumerate();
    Ok(pools.map(placed).collect())
}

/// The directories that may hold an attachment's reservations: those of
/// `prevResult.pools`, even of invalid pools, and the network's own.
pub(crate) fn directories(config: &NetworkConfig) -> BTreeSet<NetworkName> {
    ipam::pool_names(config)
        .iter()
        .map(|name| name.directory().clone())
        .chain([config.name().clone()])
        .collect()
}

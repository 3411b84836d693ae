//! STATUS of an allocator: looks for what would refuse any ADD, and claims nothing.

use cni::{Call, Error, code};
use ipam::Completion;

use crate::Store;
use crate::pools::NamedPool;
use crate::repetition::until_answered;
use crate::search::Search;

/// Name of a pool that is only read to learn whether the store answers.
const ANY_POOL: &str = "status";

/// Fails if any ADD would be refused: the store is away or refuses this node, a definition is
/// missing or invalid, or a pool has no free address. Requested addresses and sticky keys don't
/// count, since they depend on the container.
///
/// # Errors
///
/// Code 50, naming all pools without a free address, or the other reason.
pub fn status(store: &mut dyn Store, plugin: &str, call: &Call<'_>) -> Result<(), Error> {
    as_an_add(store, plugin, call)
        .map_err(|error| Error::new(code::UNAVAILABLE, error.msg).with_details(error.details))
}

fn as_an_add(store: &mut dyn Store, plugin: &str, call: &Call<'_>) -> Result<(), Error> {
    let config = &call.config;
    let ipam = config.ipam()?;
    Completion::read(config, &ipam)?;
    let pools = NamedPool::read(store, config)?;
    // An engine may answer the search from a cache.
    until_answered(store, |store| store.pool(ANY_POOL))?;
    if pools.is_empty() {
        let delegates: Option<Vec<String>> = ipam.read("ipam", "delegates")?;
        let first = delegates.unwrap_or_default().into_iter().next();
        if first.is_none_or(|first| first == plugin) {
            return Err(Error::config("no selector stands before this allocator"));
        }
    }
    let mut full = Vec::new();
    for pool in &pools {
        if Search::new(pool, None).free(store)?.is_none() {
            full.push(pool.exhausted(code::UNAVAILABLE));
        }
    }
    Error::all_as_one(full)
}

//! STATUS of an allocator: looks for what would refuse any ADD, and claims nothing.

use cni::{Call, Error, code};
use ipam::Completion;

use crate::Store;
use crate::choice::Choice;
use crate::pools::NamedPool;
use crate::repetition::{read_one, until_answered};

/// Name of a pool that is only read to learn whether the store answers.
const ANY_POOL: &str = "status";

/// Number of addresses that are read one by one before the pool's are listed.
const READS_BEFORE_LIST: u32 = 8;

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
    if pools.is_empty() {
        let delegates: Option<Vec<String>> = ipam.read("ipam", "delegates")?;
        let first = delegates.unwrap_or_default().into_iter().next();
        if first.is_none_or(|first| first == plugin) {
            return Err(Error::config("no selector stands before this allocator"));
        }
        // The selector's pools depend on the container.
        until_answered(store, |store| store.pool(ANY_POOL))?;
    }
    let mut full = Vec::new();
    for pool in &pools {
        if !has_free(store, pool)? {
            full.push(pool.exhausted(code::UNAVAILABLE));
        }
    }
    Error::all_as_one(full)
}

/// True if the pool has a free address.
fn has_free(store: &mut dyn Store, pool: &NamedPool) -> Result<bool, Error> {
    let mut choice = Choice::new(&pool.pool.ranges, None);
    for _ in 0..READS_BEFORE_LIST {
        let Some(ip) = choice.candidate() else {
            return Ok(false);
        };
        if read_one(store, &pool.key(ip))?.is_none() {
            return Ok(true);
        }
        choice.note_taken([ip]);
    }
    choice.note_taken(until_answered(store, |store| {
        store.taken(&pool.addresses())
    })?);
    Ok(choice.candidate().is_some())
}

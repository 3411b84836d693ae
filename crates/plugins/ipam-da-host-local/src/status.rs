//! STATUS: does the same as an ADD, but reserves nothing.

use std::collections::BTreeMap;

use cni::{Call, DelegateName, Error, NetworkName, code};
use ipam::Pool;
use reservations::{State, Store};

use crate::add::{Prepared, taken};

/// Fails with code 50 if any ADD would fail: its answer can't be completed, there is no selector
/// before this allocator, a pool has no free address, or a directory can't be written. The error
/// names all problems of pools and directories.
pub(crate) fn status(call: &Call<'_>) -> Result<(), Error> {
    let unavailable = |error: Error| match error.code {
        code::INVALID_CONFIG => error,
        _ => Error::new(code::UNAVAILABLE, error.msg),
    };
    let prepared = Prepared::read(call).map_err(unavailable)?;
    if !may_get_pools(call, &prepared)? {
        return Err(Error::new(code::UNAVAILABLE, Prepared::without_pools().msg));
    }
    let mut directories: BTreeMap<&NetworkName, Vec<(usize, &Pool)>> = BTreeMap::new();
    let network = call.config.name();
    for (place, pool) in prepared.pools.iter().enumerate() {
        let pools = directories.entry(pool.directory(network)).or_default();
        pools.push((place, pool));
    }
    let of_named_pools = ipam::pools_directory();
    if directories.is_empty() {
        // The selector's pools depend on the container: with or without a name.
        directories.insert(network, Vec::new());
        directories.insert(&of_named_pools, Vec::new());
    }
    let mut problems = Vec::new();
    for (name, pools) in directories {
        match prepared.data_dir.open_as_add_would(name) {
            // ADD creates the directory, so every address is free.
            Ok(None) => {}
            Ok(Some(store)) => {
                let mut all: Vec<Error> = pools
                    .into_iter()
                    .filter_map(|(place, pool)| can_give(&store, pool, network, place).err())
                    .collect();
                all.extend(store.verify_writable().err());
                problems.extend(all.into_iter().map(|error| error.msg));
            }
            Err(error) => problems.push(error.msg),
        }
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(Error::new(code::UNAVAILABLE, problems.join("; ")))
    }
}

/// False if an ADD can't get pools, because there is no other delegate before this allocator.
/// Otherwise, that delegate may choose pools by the container, or print none on STATUS.
fn may_get_pools(call: &Call<'_>, prepared: &Prepared<'_>) -> Result<bool, Error> {
    if !prepared.pools.is_empty() {
        return Ok(true);
    }
    let delegates: Option<Vec<DelegateName>> = call.config.ipam()?.read("ipam", "delegates")?;
    let name = cni::about!().name;
    Ok(delegates
        .and_then(|all| all.into_iter().next())
        .is_some_and(|first| first.as_str() != name))
}

/// An error if the pool has no address for another attachment.
fn can_give(
    store: &Store<'_>,
    pool: &Pool,
    network: &NetworkName,
    place: usize,
) -> Result<(), Error> {
    if let Some(ip) = pool.requested {
        return match store.state(ip) {
            None | Some(State::Torn) => Ok(()),
            Some(_) => Err(taken(ip, pool, network, place, "")),
        };
    }
    if store.has_free(&pool.candidates(None))? {
        return Ok(());
    }
    Err(pool.exhausted(network, place, code::UNAVAILABLE))
}

//! STATUS: does the same as an ADD, but reserves nothing.

use cni::{Call, Error, NetworkConfig, NetworkName, code};
use ipam::{Completion, Overflow, Pools};
use reservations::DataDir;

use crate::{add, storage};

/// Fails if any ADD would fail: its answer can't be completed, there is no selector before this
/// allocator, a pool has no address at all, or a directory can't be used. How many addresses are
/// reserved doesn't count: Kubernetes evicts the pods of a node that isn't ready.
///
/// # Errors
///
/// Code 7 for the configuration, naming key and value; code 50 otherwise.
pub(crate) fn status(call: &Call<'_>) -> Result<(), Error> {
    as_an_add(call).map_err(|error| match error.code {
        code::INVALID_CONFIG => error,
        _ => Error::new(code::UNAVAILABLE, error.msg),
    })
}

fn as_an_add(call: &Call<'_>) -> Result<(), Error> {
    let (config, network) = (&call.config, call.config.name());
    ipam::refuse_reserved_name(network)?;
    let ipam = config.ipam()?;
    let data_dir = storage::directories(call, &ipam)?;
    Completion::read(config, &ipam)?;
    ipam::serve_any_add(call, cni::about!().name, |pools| {
        serve(pools, config, &data_dir)
    })
}

/// Makes and locks the directories of these pools as an ADD does, and tries to write to them.
fn serve(pools: Pools, config: &NetworkConfig, data_dir: &DataDir<'_>) -> Result<(), Error> {
    let network = config.name();
    let pools = add::read(pools, config)?;
    let numbered = pools.iter().enumerate();
    let empty = numbered.filter_map(|(place, pools)| pools.refuse_empty(network, place).err());
    Error::all_as_one(empty)?;
    if pools.is_empty() {
        // A selector that prints no pools on STATUS may choose some with a name or without.
        let of_named_pools = ipam::pools_directory();
        let unnamed = verify(data_dir, [network]);
        return unnamed.or_else(|_| verify(data_dir, [&of_named_pools]));
    }
    let all = pools.iter().flat_map(Overflow::all);
    verify(data_dir, all.map(|pool| pool.directory(network)))
}

fn verify<'n>(
    data_dir: &DataDir<'_>,
    names: impl IntoIterator<Item = &'n NetworkName>,
) -> Result<(), Error> {
    let mut names: Vec<_> = names.into_iter().collect();
    names.sort_unstable();
    names.dedup();
    data_dir.create(&names)?.verify_writable()
}

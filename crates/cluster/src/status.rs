use cni::{Call, Error, code};
use ipam::Completion;

use crate::Store;
use crate::pools::CallPools;
use crate::repetition::until_answered;

/// Name of a pool that is only read to learn whether the store answers.
const ANY_POOL: &str = "status";

/// STATUS: fails if any ADD would be refused, and claims nothing. The store is away or refuses this
/// node, a definition is missing or invalid, or a pool has no address at all. How many addresses are
/// reserved doesn't count: Kubernetes evicts the pods of a node that isn't ready.
///
/// # Errors
///
/// Code 50 with the reason.
pub fn status(store: &mut dyn Store, plugin: &str, call: &Call<'_>) -> Result<(), Error> {
    as_an_add(store, plugin, call)
        .map_err(|error| Error::new(code::UNAVAILABLE, error.msg).with_details(error.details))
}

fn as_an_add(store: &mut dyn Store, plugin: &str, call: &Call<'_>) -> Result<(), Error> {
    let config = &call.config;
    Completion::read(config, &config.ipam()?)?;
    // The pools may have their ranges without a definition.
    until_answered(store, |store| store.pool(ANY_POOL))?;
    ipam::serve_any_add(call, plugin, |pools| {
        let named = CallPools::complete(store, pools, config)?;
        Error::all_as_one(named.iter().filter_map(|pools| pools.refuse_empty().err()))
    })
}

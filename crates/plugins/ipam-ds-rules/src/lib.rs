#![doc = include_str!("../README.md")]

mod cache;
mod catalogue;
mod choice;
mod compiled;
mod condition;
mod earlier_pools;
pub mod explain;
mod facts;
mod files;
mod hidden;
mod moved_ranges;
mod pool;
mod rule;
mod source;
mod template;

use cni::{About, Attachment, Call, Error, Object, Plugin, Reply};
use ipam::pools_or_nothing;

use choice::Choice;
use compiled::Compiled;
pub use condition::Condition;
pub use facts::Facts;
use moved_ranges::Reservations;

/// The plugin.
pub struct IpamDsRules;

impl Plugin for IpamDsRules {
    fn about(&self) -> About {
        cni::about!()
    }

    fn add(&self, _: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        let mut choice = choice(call)?;
        let reservations = Reservations::of(&call.config.ipam()?, call.config.name())?;
        reservations.exclude_held(&mut choice)?;
        let Choice {
            pools, routes, dns, ..
        } = choice;
        let mut result = ipam::append_pools(&call.config, pools)?;
        result.routes.extend(routes);
        dns.into_iter().for_each(|dns| result.dns.append(dns));
        Ok(Reply::Result(result))
    }

    // On DEL and CHECK, a runtime may pass fewer facts than on ADD. The chain has recorded the
    // choice of the ADD.

    fn del(&self, _: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        Ok(chosen_if_possible(call))
    }

    fn check(&self, _: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        Ok(chosen_if_possible(call))
    }

    /// All pools, because GC has no container.
    fn gc(&self, call: &Call<'_>) -> Result<Reply, Error> {
        let all = with_catalogue(call, all_pools);
        Ok(pools_or_nothing(all.and_then(|pools| reply(call, pools))))
    }

    /// Only verifies the catalogue. Prints no pool: one full pool must not make the node unready.
    fn status(&self, call: &Call<'_>) -> Result<Reply, Error> {
        with_catalogue(call, |catalogue| {
            earlier_pools::refuse_overlaps(&call.config, catalogue)?;
            if catalogue.has_no_rule() {
                return Err(choice::no_rule());
            }
            Ok(Reply::Nothing)
        })
    }
}

/// The choice for the container of a call.
fn choice(call: &Call<'_>) -> Result<Choice, Error> {
    let facts = Facts::of(call)?;
    let requests = ipam::requests(call)?;
    with_catalogue(call, |catalogue| {
        earlier_pools::refuse_overlaps(&call.config, catalogue)?;
        choice::choose(catalogue, &facts, requests)
    })
}

/// `prevResult` with the chosen pools. On DEL and CHECK, it already has their routes and DNS.
fn chosen_if_possible(call: &Call<'_>) -> Reply {
    pools_or_nothing(choice(call).and_then(|choice| reply(call, choice.pools)))
}

fn reply(call: &Call<'_>, pools: Vec<Object>) -> Result<Reply, Error> {
    ipam::append_pools(&call.config, pools).map(Reply::Result)
}

/// All pools of the catalogue, in the order of their names.
fn all_pools(catalogue: &Compiled<'_>) -> Result<Vec<Object>, Error> {
    let pools = catalogue.pool_names().map(|name| catalogue.pool(name));
    let entries = pools.filter_map(|pool| Some(pool.transpose()?.map(|pool| pool.entry)));
    entries.collect()
}

/// Calls `f` with the catalogue.
fn with_catalogue<T>(
    call: &Call<'_>,
    f: impl FnOnce(&Compiled<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    let bytes = cache::catalogue(call, &call.config.ipam()?)?;
    f(&Compiled::decode(&bytes)?)
}

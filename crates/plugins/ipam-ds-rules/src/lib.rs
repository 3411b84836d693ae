#![doc = include_str!("../README.md")]

mod alternatives;
mod catalogue;
mod choice;
mod condition;
mod fact_name;
mod inspection;
mod named_pools;
mod pool;
mod requested;
mod rule;
mod source;
mod template;
mod text_or;

use cni::{About, Attachment, Call, Error, Object, Plugin, Reply};
use ipam::{Facts, Pools, pools_or_nothing};

use alternatives::alternatives;
use catalogue::Catalogue;
use choice::Choice;
pub use inspection::{pools, pools_of_file, shared_owners};

/// The selector `ipam-ds-rules`: appends the pools of the first rule that holds.
pub struct IpamDsRules;

impl Plugin for IpamDsRules {
    fn about(&self) -> About {
        cni::about!()
    }

    fn add(&self, _: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        let catalogue = Catalogue::of(&call.config)?;
        let choice = choice_of(&catalogue, call)?;
        choice.refuse_missing_gateways(&call.config)?;
        let mut result = Pools::append(&call.config, choice.entries()?)?;
        for pool in choice.certain_pools() {
            result.routes.extend(pool.routes.iter().cloned());
            result.dns.append(pool.dns.clone());
        }
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
        Ok(pools_or_nothing(
            pools(&call.config).and_then(|pools| reply(call, pools)),
        ))
    }

    /// Verifies the catalogue, and prints the pools of each rule that may hold on this node: one that
    /// can be served is enough.
    fn status(&self, call: &Call<'_>) -> Result<Reply, Error> {
        let catalogue = Catalogue::of(&call.config)?;
        catalogue.pools.refuse_overlaps(&call.config)?;
        let alternatives = alternatives(&catalogue, call)?;
        ipam::with_alternatives(&call.config, &alternatives).map(Reply::Result)
    }
}

/// The choice for the container of a call.
fn choice_of<'a>(catalogue: &'a Catalogue, call: &Call<'_>) -> Result<Choice<'a>, Error> {
    let facts = Facts::of(call)?;
    catalogue.pools.refuse_overlaps(&call.config)?;
    let rule = catalogue.first_that_holds(&facts)?;
    let mut choice = Choice::for_container(&catalogue.pools, rule, &facts)?;
    choice.request_by_runtime(ipam::requests(call)?)?;
    tracing::debug!(rule = rule.path, "this rule holds");
    Ok(choice)
}

/// `prevResult` with the chosen pools. On DEL and CHECK, it already has their routes and DNS.
fn chosen_if_possible(call: &Call<'_>) -> Reply {
    let entries =
        Catalogue::of(&call.config).and_then(|catalogue| choice_of(&catalogue, call)?.entries());
    pools_or_nothing(entries.and_then(|pools| reply(call, pools)))
}

fn reply(call: &Call<'_>, pools: Vec<Object>) -> Result<Reply, Error> {
    Pools::append(&call.config, pools).map(Reply::Result)
}

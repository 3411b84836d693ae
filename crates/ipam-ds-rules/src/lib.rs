#![doc = include_str!("../README.md")]

mod cache;
mod catalogue;
mod choice;
mod compiled;
mod condition;
mod facts;
mod pool;
mod rule;
mod source;
mod template;
pub mod tools;

use cni::{About, Attachment, Call, Error, Object, Plugin, Reply, code};

use choice::Choice;
use compiled::Compiled;
pub use condition::Condition;
pub use facts::Facts;

/// The plugin.
pub struct IpamDsRules;

impl Plugin for IpamDsRules {
    fn about(&self) -> About {
        cni::about!()
    }

    fn add(&self, _: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        reply(call, choice(call)?)
    }

    // On DEL and CHECK, a runtime may say less than on ADD. The chain has recorded what was
    // chosen then.

    fn del(&self, _: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        Ok(chosen_if_possible(call))
    }

    fn check(&self, _: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        Ok(chosen_if_possible(call))
    }

    /// All pools, since GC is about no container.
    fn gc(&self, call: &Call<'_>) -> Result<Reply, Error> {
        let all = with_catalogue(call, |catalogue| {
            let mut all = Choice::default();
            for name in catalogue.pool_names() {
                all.pools
                    .extend(catalogue.pool(name)?.map(|pool| pool.entry));
            }
            Ok(all)
        });
        Ok(or_nothing(all.and_then(|all| reply(call, all))))
    }

    /// The catalogue is verified. No pool is printed: a full one must not make the node
    /// unready.
    fn status(&self, call: &Call<'_>) -> Result<Reply, Error> {
        with_catalogue(call, |_| Ok(Reply::Nothing))
    }
}

/// The pools of the container that a call is about.
fn choice(call: &Call<'_>) -> Result<Choice, Error> {
    let facts = Facts::of(call)?;
    let requests = ipam::requests(call)?;
    with_catalogue(call, |catalogue| {
        choice::choose(catalogue, &facts, requests.clone())
    })
}

fn chosen_if_possible(call: &Call<'_>) -> Reply {
    or_nothing(choice(call).and_then(|choice| reply(call, choice)))
}

fn or_nothing(reply: Result<Reply, Error>) -> Reply {
    reply.unwrap_or_else(|error| {
        tracing::debug!(%error, "no pools are printed");
        Reply::Nothing
    })
}

/// `prevResult` with the chosen pools, their routes and their DNS.
fn reply(call: &Call<'_>, choice: Choice) -> Result<Reply, Error> {
    let mut result = ipam::append_pools(&call.config, choice.pools)?;
    result.routes.extend(choice.routes);
    choice
        .dns
        .into_iter()
        .for_each(|dns| result.dns.append(dns));
    Ok(Reply::Result(result))
}

/// Calls `f` with the catalogue; once more without the cache, if that is damaged.
fn with_catalogue<T>(
    call: &Call<'_>,
    f: impl Fn(&Compiled<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    let ipam: Object = call.config.ipam()?;
    let encoded = cache::catalogue(call, &ipam)?;
    let result = Compiled::decode(&encoded.bytes).and_then(|it| f(&it));
    match result {
        Err(error) if error.code == code::INTERNAL && encoded.is_cached => {
            tracing::warn!(%error, "removing its cache");
            cache::remove(call, &ipam);
            let bytes = cache::uncached(&ipam)?;
            f(&Compiled::decode(&bytes)?)
        }
        other => other,
    }
}

//! The verified catalogue as one serialized value, which an ADD reads whole.
//!
//! Texts are borrowed from the serialized bytes. Entries, routes and DNS of pools stay JSON
//! until a pool is chosen.

use std::net::IpAddr;

use cni::{Dns, Error, Object, code};
use serde::{Deserialize, Serialize};

use crate::catalogue::Catalogue;
use crate::rule::Rule;

/// A catalogue, verified.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Compiled<'a> {
    /// Pools, in the order of their names.
    #[serde(borrow)]
    pools: Vec<CompiledPool<'a>>,
    /// Rules, in the order in which they are tried.
    #[serde(borrow)]
    pub(crate) rules: Vec<Rule<'a>>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct CompiledPool<'a> {
    name: &'a str,
    /// JSON, as are routes and DNS.
    entry: &'a str,
    routes: &'a str,
    dns: &'a str,
    pinned: Vec<IpAddr>,
    held_in: Vec<&'a str>,
}

/// A pool, parsed.
#[derive(Clone, Debug)]
pub(crate) struct ChosenPool {
    /// Its entry in `pools`.
    pub(crate) entry: Object,
    pub(crate) routes: Vec<Object>,
    pub(crate) dns: Dns,
    /// The addresses that rules request.
    pub(crate) pinned: Vec<IpAddr>,
    /// Directories of reservations, other than its own, that hold addresses of it.
    pub(crate) held_in: Vec<String>,
}

impl ChosenPool {
    /// False if only a delegate behind the selector knows its ranges.
    pub(crate) fn is_ranged(&self) -> bool {
        ["ranges", "subnet"]
            .iter()
            .any(|key| self.entry.get(key).is_some())
    }
}

/// Serializes a catalogue.
pub(crate) fn encode(catalogue: Catalogue) -> Result<Vec<u8>, Error> {
    let mut texts = Vec::with_capacity(catalogue.pools.len());
    for pool in &catalogue.pools {
        let dns = pool.dns.clone().unwrap_or_default();
        texts.push([json(&pool.entry()?), json(&pool.routes), json(&dns)]);
    }
    let mut pools = Vec::with_capacity(texts.len());
    for (pool, [entry, routes, dns]) in catalogue.pools.iter().zip(&texts) {
        pools.push(CompiledPool {
            name: pool.name.as_str(),
            entry,
            routes,
            dns,
            pinned: pool.pinned.iter().copied().collect(),
            held_in: pool.held_in.iter().map(String::as_str).collect(),
        });
    }
    pools.sort_unstable_by_key(|pool| pool.name);
    let rules = catalogue.rules;
    Ok(postcard::to_stdvec(&Compiled { pools, rules }).expect("memory is enough"))
}

fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("objects are JSON")
}

impl<'a> Compiled<'a> {
    /// Reads what [`encode`] has serialized.
    ///
    /// # Errors
    ///
    /// Code 199 for anything else.
    pub(crate) fn decode(bytes: &'a [u8]) -> Result<Self, Error> {
        postcard::from_bytes(bytes).map_err(damaged)
    }

    /// The names of all pools.
    pub(crate) fn pool_names(&self) -> impl Iterator<Item = &'a str> {
        self.pools.iter().map(|pool| pool.name)
    }

    /// The pool of this name.
    pub(crate) fn pool(&self, name: &str) -> Result<Option<ChosenPool>, Error> {
        let Ok(at) = self.pools.binary_search_by_key(&name, |pool| pool.name) else {
            return Ok(None);
        };
        let pool = &self.pools[at];
        let dns: Object = serde_json::from_str(pool.dns).map_err(damaged)?;
        Ok(Some(ChosenPool {
            entry: serde_json::from_str(pool.entry).map_err(damaged)?,
            routes: serde_json::from_str(pool.routes).map_err(damaged)?,
            dns: Dns::read("dns", dns)?,
            pinned: pool.pinned.clone(),
            held_in: pool.held_in.iter().map(ToString::to_string).collect(),
        }))
    }
}

fn damaged(why: impl std::fmt::Display) -> Error {
    Error::new(
        code::INTERNAL,
        format!("the compiled catalogue is damaged: {why}"),
    )
}

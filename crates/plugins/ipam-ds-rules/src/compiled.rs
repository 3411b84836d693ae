//! The verified catalogue, serialized. An ADD decodes only the parts that it needs.
//!
//! Of a rule that doesn't hold, only the conditions up to the first unmet one are decoded. Only
//! the rule that holds and its pools are decoded completely. With 5,000 rules, decoding everything
//! took two milliseconds more.

use std::collections::BTreeSet;
use std::net::IpAddr;

use cni::{Error, Object, code};
use serde::{Deserialize, Serialize};

use crate::catalogue::Catalogue;
use crate::facts::Facts;
use crate::rule::{Rule, When};

/// A verified catalogue.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Compiled<'a> {
    /// Pools, in the order of their names: [`ChosenPool`] as JSON.
    #[serde(borrow)]
    pools: Vec<(&'a str, &'a [u8])>,
    /// Rules in the order in which they are tried: concatenated [`CompiledRule`]s.
    rules: &'a [u8],
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct CompiledRule<'a> {
    /// Its conditions: concatenated [`When`]s.
    when: &'a [u8],
    /// The [`Rule`] without its conditions.
    rest: &'a [u8],
}

/// What an ADD needs of a pool of the catalogue.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ChosenPool {
    /// Its entry in `pools`.
    pub(crate) entry: Object,
    pub(crate) routes: Vec<Object>,
    pub(crate) dns: Object,
    /// The addresses that rules request.
    pub(crate) pinned: BTreeSet<IpAddr>,
    /// Other directories of reservations that may hold addresses of it.
    pub(crate) held_in: BTreeSet<String>,
}

/// Serializes a catalogue.
pub(crate) fn encode(catalogue: &Catalogue) -> Result<Vec<u8>, Error> {
    let mut pools = Vec::with_capacity(catalogue.pools.len());
    for pool in &catalogue.pools {
        let compiled = ChosenPool {
            entry: pool.entry()?,
            ..pool.chosen.clone()
        };
        let json = serde_json::to_vec(&compiled).expect("a pool is JSON");
        pools.push((pool.name.as_str(), json));
    }
    pools.sort_unstable();
    let compiled = |rule: &Rule<'_>| {
        let when: Vec<u8> = rule.when.iter().flat_map(bytes).collect();
        bytes(&CompiledRule {
            when: &when,
            rest: &bytes(rule),
        })
    };
    let rules: Vec<u8> = catalogue.rules.iter().flat_map(compiled).collect();
    Ok(bytes(&Compiled {
        pools: pools.iter().map(|(name, pool)| (*name, &**pool)).collect(),
        rules: &rules,
    }))
}

fn bytes<T: Serialize>(value: &T) -> Vec<u8> {
    postcard::to_stdvec(value).expect("memory is enough")
}

impl<'a> Compiled<'a> {
    /// Decodes the output of [`encode`].
    ///
    /// # Errors
    ///
    /// Code 199 for anything else.
    pub(crate) fn decode(bytes: &'a [u8]) -> Result<Self, Error> {
        postcard::from_bytes(bytes).map_err(damaged)
    }

    /// True if the catalogue has no rule.
    pub(crate) fn has_no_rule(&self) -> bool {
        self.rules.is_empty()
    }

    /// The first rule that holds, without its conditions.
    pub(crate) fn first_that_holds(&self, facts: &Facts) -> Result<Option<Rule<'a>>, Error> {
        for rule in items::<CompiledRule<'a>>(self.rules) {
            let rule = rule?;
            let mut when = items::<When<'a>>(rule.when);
            match when.find(|when| !matches!(when, Ok(when) if when.is_met(facts))) {
                None => return postcard::from_bytes(rule.rest).map(Some).map_err(damaged),
                Some(unmet) => drop(unmet?),
            }
        }
        Ok(None)
    }

    /// The names of all pools.
    pub(crate) fn pool_names(&self) -> impl Iterator<Item = &'a str> {
        self.pools.iter().map(|(name, _)| *name)
    }

    /// The pool of this name.
    pub(crate) fn pool(&self, name: &str) -> Result<Option<ChosenPool>, Error> {
        let Ok(at) = self.pools.binary_search_by_key(&name, |(name, _)| *name) else {
            return Ok(None);
        };
        let pool = serde_json::from_slice(self.pools[at].1);
        pool.map(Some).map_err(damaged)
    }
}

/// Decodes concatenated items. Invalid bytes end the iteration.
fn items<'a, T: Deserialize<'a>>(mut rest: &'a [u8]) -> impl Iterator<Item = Result<T, Error>> {
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let taken = postcard::take_from_bytes(std::mem::take(&mut rest));
        Some(taken.map_err(damaged).map(|(item, behind)| {
            rest = behind;
            item
        }))
    })
}

fn damaged(why: impl std::fmt::Display) -> Error {
    Error::new(
        code::INTERNAL,
        format!("the compiled catalogue is damaged: {why}"),
    )
}

//! The catalogue in a form that an ADD reads quickly: encoded, and decoded only as far as
//! it is needed.
//!
//! A rule that doesn't hold costs the decoding of its first conditions. Nothing else is
//! decoded but the rule that holds and its pools.

use std::net::IpAddr;

use cni::{Dns, Error, Object, code};
use serde::{Deserialize, Serialize};

use crate::catalogue::Catalogue;
use crate::condition::Condition;
use crate::facts::Facts;
use crate::pool::CataloguePool;
use crate::rule::{Rule, Then, rule_path};

/// An encoded catalogue.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Compiled<'a> {
    /// Pools, by the order of their names: [`CompiledPool`].
    #[serde(borrow)]
    pools: Vec<(&'a str, &'a [u8])>,
    /// The beginnings of the rules' names, by source: `ipam.`.
    #[serde(borrow)]
    prefixes: Vec<&'a str>,
    /// Rules, one after the other: [`EncodedRule`].
    rules: &'a [u8],
}

#[derive(Serialize, Deserialize)]
struct CompiledPool<'a> {
    entry: &'a str,
    routes: &'a str,
    dns: &'a str,
    pinned: Vec<IpAddr>,
    held_in: Vec<String>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct EncodedRule<'a> {
    /// Number of its source, and of the rule in it.
    place: (u32, u32),
    /// Pairs of a fact's name and a [`Condition`], one after the other.
    when: &'a [u8],
    /// A [`Then`].
    then: &'a [u8],
}

/// A rule, which is decoded when it is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CompiledRule<'a> {
    encoded: EncodedRule<'a>,
    prefix: &'a str,
}

/// A pool, decoded.
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

/// A condition that doesn't hold.
#[derive(Clone, Debug)]
pub(crate) struct Unmet<'a> {
    /// The name of the fact.
    pub(crate) fact: &'a str,
    /// What it must be.
    pub(crate) must_be: Condition<'a>,
}

/// Encodes a catalogue.
pub(crate) fn encode(catalogue: &Catalogue) -> Result<Vec<u8>, Error> {
    let mut pools = Vec::with_capacity(catalogue.pools.len());
    for pool in &catalogue.pools {
        pools.push((pool.name.as_str(), encode_pool(pool)?));
    }
    pools.sort_unstable();
    let (mut prefixes, mut rules) = (Vec::new(), Vec::new());
    for (source, (prefix, of_source)) in (0..).zip(&catalogue.rules) {
        prefixes.push(prefix.as_str());
        for (i, rule) in (0..).zip(of_source) {
            encode_rule((source, i), rule, &mut rules);
        }
    }
    Ok(bytes(&Compiled {
        pools: pools.iter().map(|(name, pool)| (*name, &**pool)).collect(),
        prefixes,
        rules: &rules,
    }))
}

fn encode_pool(pool: &CataloguePool) -> Result<Vec<u8>, Error> {
    Ok(bytes(&CompiledPool {
        entry: &json(&pool.entry()?),
        routes: &json(&pool.routes),
        dns: &json(&pool.dns.clone().unwrap_or_default()),
        pinned: pool.pinned.iter().copied().collect(),
        held_in: pool.held_in.clone(),
    }))
}

fn encode_rule(place: (u32, u32), rule: &Rule, to: &mut Vec<u8>) {
    let conditions = rule.when.iter().flat_map(bytes);
    to.extend(bytes(&EncodedRule {
        place,
        when: &conditions.collect::<Vec<u8>>(),
        then: &bytes(&rule.then),
    }));
}

fn bytes<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    postcard::to_stdvec(value).expect("memory is enough")
}

fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("objects are JSON")
}

impl<'a> Compiled<'a> {
    /// Decodes what [`encode`] has encoded.
    ///
    /// # Errors
    ///
    /// Code 199 for anything else.
    pub(crate) fn decode(bytes: &'a [u8]) -> Result<Self, Error> {
        postcard::from_bytes(bytes).map_err(damaged)
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
        let pool: CompiledPool<'_> = postcard::from_bytes(self.pools[at].1).map_err(damaged)?;
        let dns: Object = serde_json::from_str(pool.dns).map_err(damaged)?;
        Ok(Some(ChosenPool {
            entry: serde_json::from_str(pool.entry).map_err(damaged)?,
            routes: serde_json::from_str(pool.routes).map_err(damaged)?,
            dns: Dns::read("dns", dns)?,
            pinned: pool.pinned,
            held_in: pool.held_in,
        }))
    }

    /// The rules, in the order in which they are tried.
    pub(crate) fn rules(&self) -> impl Iterator<Item = Result<CompiledRule<'a>, Error>> {
        items(self.rules).map(|encoded| {
            let encoded: EncodedRule<'a> = encoded?;
            let prefix = self.prefixes.get(encoded.place.0 as usize);
            let prefix = prefix.ok_or_else(|| damaged("a rule of no source"))?;
            Ok(CompiledRule { encoded, prefix })
        })
    }
}

impl<'a> CompiledRule<'a> {
    /// Its name in messages: `ipam.rules[3]`.
    pub(crate) fn path(&self) -> String {
        rule_path(self.prefix, self.encoded.place.1)
    }

    /// Its conditions, each with the name of its fact.
    pub(crate) fn conditions(
        &self,
    ) -> impl Iterator<Item = Result<(&'a str, Condition<'a>), Error>> {
        items(self.encoded.when)
    }

    /// The first condition that doesn't hold; `None` if the rule holds.
    pub(crate) fn unmet(&self, facts: &Facts) -> Result<Option<Unmet<'a>>, Error> {
        for condition in self.conditions() {
            let (fact, must_be) = condition?;
            if !must_be.holds(facts.get(fact)) {
                return Ok(Some(Unmet { fact, must_be }));
            }
        }
        Ok(None)
    }

    /// What follows if it holds.
    pub(crate) fn then(&self) -> Result<Then<'a>, Error> {
        postcard::from_bytes(self.encoded.then).map_err(damaged)
    }
}

/// Decodes items that stand one after the other.
fn items<'a, T: Deserialize<'a>>(mut rest: &'a [u8]) -> impl Iterator<Item = Result<T, Error>> {
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        match postcard::take_from_bytes(rest) {
            Ok((item, behind)) => {
                rest = behind;
                Some(Ok(item))
            }
            Err(error) => {
                rest = &[];
                Some(Err(damaged(error)))
            }
        }
    })
}

fn damaged(why: impl std::fmt::Display) -> Error {
    Error::new(
        code::INTERNAL,
        format!("the compiled catalogue is damaged: {why}"),
    )
}

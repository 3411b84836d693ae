//! The catalogue and its rules for tools: what a call would get, and why.

use cni::{Call, Error, Object};

use crate::choice::Choice;
use crate::compiled::Compiled;
use crate::facts::Facts;
use crate::{cache, choice};

/// A rule that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    /// Its name: `ipam.rules[3]`, or `/etc/cni/ipam.d/db.json: rules[0]`.
    pub rule: String,
    /// The first condition that doesn't hold; `None` if the rule holds.
    pub unmet: Option<Unmet>,
}

/// A condition that doesn't hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmet {
    /// The name of the fact.
    pub fact: String,
    /// The fact; `None` if it is missing.
    pub is: Option<String>,
    /// What it must be, as it is written in JSON.
    pub must_be: String,
}

/// What an ADD would choose, and the way to it.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The facts of the call.
    pub facts: Facts,
    /// The rules up to the one that holds, in order.
    pub tried: Vec<Tried>,
    /// Entries of `pools` that an ADD would get, or its refusal.
    pub pools: Result<Vec<Object>, Error>,
}

/// Explains what an ADD with this call would choose.
///
/// # Errors
///
/// As the plugin: an invalid catalogue, facts that can't be read.
pub fn explain(call: &Call<'_>) -> Result<Explanation, Error> {
    let facts = Facts::of(call)?;
    let encoded = cache::catalogue(call, &call.config.ipam()?, true)?;
    let catalogue = Compiled::decode(&encoded.bytes)?;
    let mut tried = Vec::new();
    for rule in catalogue.rules() {
        let rule = rule?;
        let unmet = rule.unmet(&facts)?.map(|it| Unmet {
            is: facts.get(it.fact).map(str::to_owned),
            fact: it.fact.to_owned(),
            must_be: it.must_be.to_string(),
        });
        let holds = unmet.is_none();
        tried.push(Tried {
            rule: rule.path(),
            unmet,
        });
        if holds {
            break;
        }
    }
    let chosen = ipam::requests(call).and_then(|it| choice::choose(&catalogue, &facts, it));
    Ok(Explanation {
        facts,
        tried,
        pools: chosen.map(|Choice { pools, .. }| pools),
    })
}

/// All pools of the catalogue, as entries of `pools`, by the order of their names.
///
/// # Errors
///
/// As the plugin: an invalid catalogue, naming file, rule and key.
pub fn pools(call: &Call<'_>) -> Result<Vec<Object>, Error> {
    let encoded = cache::catalogue(call, &call.config.ipam()?, true)?;
    let catalogue = Compiled::decode(&encoded.bytes)?;
    let mut all = Vec::new();
    for name in catalogue.pool_names() {
        all.extend(catalogue.pool(name)?.map(|pool| pool.entry));
    }
    Ok(all)
}

//! Explains the catalogue for tools: the rule and the pools of a call, and rules that no call
//! reaches. Reads and writes no cache.

use std::collections::BTreeSet;

use cni::{Call, Error, NetworkConfig, Object};

use crate::choice::Choice;
use crate::compiled::Compiled;
use crate::facts::Facts;
use crate::rule::Rule;
use crate::template::Template;
use crate::{cache, choice, compiled, hidden};

pub use crate::facts::ANNOTATIONS;
pub use crate::moved_ranges::{HeldElsewhere, held_elsewhere};

/// A rule that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    /// Its name: `ipam.rules[3]`, or `/etc/cni/ipam.d/db.json: rules[0]`.
    pub rule: String,
    /// The first condition that doesn't hold; `None` if the rule holds.
    pub unmet: Option<Unmet>,
}

/// An unmet condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmet {
    /// The name of the fact.
    pub fact: String,
    /// The value of the fact; `None` if it is missing.
    pub is: Option<String>,
    /// The condition, as JSON.
    pub must_be: String,
}

/// The choice of an ADD, with the rules that were tried.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The facts of the call.
    pub facts: Facts,
    /// The rules up to the one that holds, in order.
    pub tried: Vec<Tried>,
    /// The entries of `pools` for an ADD, or its error.
    pub pools: Result<Vec<Object>, Error>,
}

/// Explains what an ADD with this call would choose.
///
/// # Errors
///
/// As the plugin: an invalid catalogue, or unreadable facts.
pub fn explain(call: &Call<'_>) -> Result<Explanation, Error> {
    let facts = Facts::of(call)?;
    let catalogue = cache::uncached(&call.config.ipam()?)?;
    let mut tried = Vec::new();
    for rule in &catalogue.rules {
        let unmet = rule.unmet(&facts).map(|when| Unmet {
            is: facts.get(&when.fact).map(str::to_owned),
            fact: when.fact.to_string(),
            must_be: when.must_be.to_string(),
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
    let bytes = compiled::encode(&catalogue)?;
    let chosen = ipam::requests(call)
        .and_then(|requests| choice::choose(&Compiled::decode(&bytes)?, &facts, requests));
    Ok(Explanation {
        facts,
        tried,
        pools: chosen.map(|Choice { pools, .. }| pools),
    })
}

/// All pools of the catalogue as entries of `pools`, in the order of their names.
///
/// # Errors
///
/// As the plugin: an invalid catalogue, naming file, rule and key.
pub fn pools(config: &NetworkConfig) -> Result<Vec<Object>, Error> {
    let bytes = compiled::encode(&cache::uncached(&config.ipam()?)?)?;
    crate::all_pools(&Compiled::decode(&bytes)?)
}

/// A rule that no call reaches. Rules are named as in [`Tried`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreached {
    /// The rule.
    pub rule: String,
    /// The first earlier rule that holds whenever this one does.
    pub earlier: String,
}

/// The rules after one with the same or weaker conditions.
///
/// The list may be incomplete, because patterns are compared only with texts, and rules only in
/// pairs.
///
/// # Errors
///
/// As the plugin: an invalid catalogue, naming file, rule and key.
pub fn unreached(config: &NetworkConfig) -> Result<Vec<Unreached>, Error> {
    let rules = cache::uncached(&config.ipam()?)?.rules;
    let hidden = hidden::hidden(&rules).into_iter();
    let unreached = hidden.map(|(rule, earlier)| Unreached {
        rule: rules[rule].path(),
        earlier: rules[earlier].path(),
    });
    Ok(unreached.collect())
}

/// The facts in each rule's conditions and in its `${FACT}` templates. Rules are named as in
/// [`Tried`].
///
/// # Errors
///
/// As the plugin: an invalid catalogue, naming file, rule and key.
pub fn facts_of_rules(config: &NetworkConfig) -> Result<Vec<(String, BTreeSet<String>)>, Error> {
    let rules = cache::uncached(&config.ipam()?)?.rules;
    let of_rule = |rule: &Rule<'_>| {
        let of_conditions = rule.when.iter().map(|when| when.fact.to_string());
        let templates = rule.pools.iter().chain(&rule.ips).chain(&rule.sticky);
        let of_texts = templates.flat_map(Template::facts).map(str::to_owned);
        (rule.path(), of_conditions.chain(of_texts).collect())
    };
    Ok(rules.iter().map(of_rule).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cni::Environment;

    const IPAM: &str = r#"{"pools":{"web":{"subnet":"10.0.0.0/24"},"db":{}},"rules":[
        {"when":{"A":["x","y*"],"label:b":null},"pools":["web"]},
        {"when":{"A":"z","C":{"not":null}},"pools":["db"]},
        {"when":{"network":"net"},"pools":["db"],"sticky":"${A}"},
        {"pools":["web"]}]}"#;

    fn config() -> NetworkConfig {
        let json = format!(r#"{{"cniVersion":"1.0.0","name":"net","ipam":{IPAM}}}"#);
        NetworkConfig::parse(json.into_bytes()).unwrap()
    }

    #[test]
    fn each_rule_up_to_the_one_that_holds_says_why_it_does_not() {
        let explained = |args: &str| {
            let environment = Environment::default().with("CNI_ARGS", args);
            explain(&Call::new(config(), &environment)).unwrap()
        };
        let told: Vec<String> = explained("A=z")
            .tried
            .iter()
            .map(|tried| match &tried.unmet {
                Some(Unmet { fact, is, must_be }) => {
                    format!("{}: {fact} is {is:?}, not {must_be}", tried.rule)
                }
                None => format!("{} holds", tried.rule),
            })
            .collect();
        assert_eq!(
            told,
            [
                r#"ipam.rules[0]: A is Some("z"), not ["x", "y*"]"#,
                r#"ipam.rules[1]: C is None, not {"not": null}"#,
                "ipam.rules[2] holds",
            ]
        );
        assert_eq!(explained("A=z").pools.unwrap().len(), 1);
        let refusal = explained("").pools.unwrap_err();
        assert!(refusal.msg.contains("the fact A is missing"), "{refusal}");
    }

    #[test]
    fn all_pools_are_listed_by_the_order_of_their_names() {
        let pools = pools(&config()).unwrap();
        let pools: Vec<String> = pools
            .iter()
            .map(|pool| serde_json::to_string(pool).unwrap())
            .collect();
        assert_eq!(
            pools,
            [
                r#"{"name":"db"}"#,
                r#"{"name":"web","subnet":"10.0.0.0/24"}"#
            ]
        );
    }

    fn rules(rules: &str) -> NetworkConfig {
        let ipam = format!(r#"{{"pools":{{"p":{{}}}},"rules":[{rules}]}}"#);
        let json = format!(r#"{{"cniVersion":"1.0.0","name":"net","ipam":{ipam}}}"#);
        NetworkConfig::parse(json.into_bytes()).unwrap()
    }

    #[test]
    fn a_rule_behind_one_with_weaker_conditions_is_unreached() {
        let unreached = |when: [&str; 3]| -> Vec<String> {
            let all = when.map(|when| format!(r#"{{"when":{when},"pools":["p"]}}"#));
            let all = unreached(&rules(&all.join(",")));
            let all = all.unwrap().into_iter();
            all.map(|unreached| format!("{} by {}", unreached.rule, unreached.earlier))
                .collect()
        };
        let second = ["ipam.rules[1] by ipam.rules[0]"];
        for when in [
            [r#"{"NS":"shop"}"#, r#"{"NAME":"db","NS":"shop"}"#],
            [r#"{"NS":["shop","x"]}"#, r#"{"NS":"x"}"#],
            [r#"{"NS":"*"}"#, r#"{"NS":"x"}"#],
            [r#"{"NS":"x","A":"1"}"#, r#"{"A":"1","NS":"x"}"#],
        ] {
            assert_eq!(unreached([when[0], when[1], "null"]), second, "{when:?}");
        }
        for when in [
            [r#"{"NS":"shop","NAME":"db"}"#, r#"{"NS":"shop"}"#],
            [r#"{"NS":"shop"}"#, r#"{"NAME":"shop"}"#],
            [r#"{"NS":"*"}"#, r#"{"NS":null}"#],
            [r#"{"NS":"x"}"#, r#"{"NS":["shop","x"]}"#],
        ] {
            assert!(unreached([when[0], when[1], "null"]).is_empty(), "{when:?}");
        }
        let first_is_named = [r#"{"A":"*"}"#, r#"{"A":["1","2"]}"#, r#"{"A":"1"}"#];
        assert_eq!(
            unreached(first_is_named),
            [
                "ipam.rules[1] by ipam.rules[0]",
                "ipam.rules[2] by ipam.rules[0]"
            ]
        );
    }

    #[test]
    fn the_facts_of_a_rule_are_those_of_its_conditions_and_of_its_texts() {
        let config = rules(
            r#"{"when":{"A":"x"},"pools":["${label:b}"],"ip":"${IP}","sticky":"${A}-${C}"},
               {"pools":["p"]}"#,
        );
        let all = facts_of_rules(&config).unwrap();
        let facts: Vec<&str> = all[0].1.iter().map(String::as_str).collect();
        assert_eq!(facts, ["A", "C", "IP", "label:b"]);
        assert_eq!((all[1].0.as_str(), all[1].1.len()), ("ipam.rules[1]", 0));
    }
}

//! The catalogue and its rules for tools: what a call would get, and why. No cache is read
//! or written.

use cni::{Call, Error, NetworkConfig, Object};

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
    let bytes = cache::uncached(&call.config.ipam()?)?;
    let catalogue = Compiled::decode(&bytes)?;
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
pub fn pools(config: &NetworkConfig) -> Result<Vec<Object>, Error> {
    let bytes = cache::uncached(&config.ipam()?)?;
    let catalogue = Compiled::decode(&bytes)?;
    crate::all_pools(&catalogue)
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
            .map(|it| match &it.unmet {
                Some(Unmet { fact, is, must_be }) => {
                    format!("{}: {fact} is {is:?}, not {must_be}", it.rule)
                }
                None => format!("{} holds", it.rule),
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
}

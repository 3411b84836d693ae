//! The pools of each rule, for STATUS, which has no container.

use cni::{Error, Object};
use ipam::LONGEST_STICKY_KEY;

use crate::catalogue::Catalogue;
use crate::choice::{self, Choice};
use crate::pool::CataloguePool;
use crate::rule::Rule;
use crate::template::Template;

/// The pools that each rule may lead to: those whose names have no fact, and, if others have one,
/// each pool that it may name.
///
/// # Errors
///
/// Code 7 if no rule can lead to pools.
pub(crate) fn alternatives(catalogue: &Catalogue) -> Result<Vec<Vec<Object>>, Error> {
    if catalogue.rules.is_empty() {
        return Err(choice::no_rule());
    }
    let mut all = Vec::new();
    let mut errors = Vec::new();
    for rule in &catalogue.rules {
        match of_rule(catalogue, rule) {
            Ok(some) => all.extend(some),
            Err(error) => errors.push(error),
        }
    }
    if all.is_empty() {
        Error::all_as_one(errors)?;
    }
    Ok(all)
}

fn of_rule(catalogue: &Catalogue, rule: &Rule) -> Result<Vec<Vec<Object>>, Error> {
    let never = |key: &str, why: &str| Err(Error::config(format!("{}.{key}: {why}", rule.path)));
    for (key, template) in [("sticky", &rule.sticky), ("owner", &rule.owner)] {
        let is_longer = |text: &Template| text.shortest() > LONGEST_STICKY_KEY;
        if template.as_ref().is_some_and(is_longer) {
            let why = format!("it is longer than {LONGEST_STICKY_KEY} bytes");
            return never(key, &why);
        }
    }
    let choice = Choice::for_any_container(&catalogue.pools, rule)?;
    let mut certain = choice.entries()?;
    // A fact may be an address that is excluded for all others.
    if rule.ips().iter().any(|(_, requested)| !requested.is_pin()) {
        certain.iter_mut().for_each(|entry| entry.remove("exclude"));
    }
    let mut alternatives = Vec::new();
    for names in rule.pools() {
        // Of an array, one pool is enough.
        let is_known = names
            .iter()
            .any(|(_, template)| template.literal().is_some());
        let Some((key, template)) = names.first().filter(|_| !is_known) else {
            continue;
        };
        let chosen = |pool: &CataloguePool| choice.pools().any(|other| other.name == pool.name);
        let named = catalogue
            .pools
            .all()
            .iter()
            .filter(|pool| template.may_be(pool.name.as_str()));
        let named: Vec<&CataloguePool> = named.filter(|pool| !chosen(pool)).collect();
        if named.is_empty() {
            return never(&key.to_string(), "no further pool has such a name");
        }
        for pool in named {
            let mut entry = pool.entry(&[])?;
            entry.remove("exclude");
            alternatives.push([&certain[..], &[entry]].concat());
        }
    }
    if alternatives.is_empty() {
        alternatives.push(certain);
    }
    Ok(alternatives)
}

#[cfg(test)]
mod tests {
    use cni::NetworkConfig;

    use super::*;

    /// The names of the pools of each alternative.
    fn of(rules: &str) -> Result<Vec<String>, String> {
        let pools = r#"{"web":{"subnet":"10.0.0.0/24"},"db":{"subnet":"10.0.1.0/24"},"lan":{}}"#;
        let ipam = format!(r#"{{"pools":{pools},"rules":[{rules}]}}"#);
        let json = format!(r#"{{"cniVersion":"1.1.0","name":"net","ipam":{ipam}}}"#);
        let config = NetworkConfig::parse(json.into_bytes()).unwrap();
        let catalogue = Catalogue::of(&config).unwrap();
        let all = alternatives(&catalogue).map_err(|error| error.msg)?;
        let name = |entry: &Object| entry.read::<String>("", "name").unwrap().unwrap();
        let names = |entries: &Vec<Object>| entries.iter().map(name).collect::<Vec<_>>().join("+");
        Ok(all.iter().map(names).collect())
    }

    #[test]
    fn each_rule_and_each_pool_that_a_fact_may_name_is_an_alternative() {
        let rules = r#"{"when":{"A":"1"},"pools":["web","lan"]},{"pools":["db","${A}"]}"#;
        assert_eq!(of(rules).unwrap(), ["web+lan", "db+web", "db+lan"]);
        assert_eq!(of(r#"{"pools":["${A}b"]}"#).unwrap(), ["web", "db"]);
    }

    #[test]
    fn a_rule_that_can_choose_for_nobody_is_no_alternative() {
        let long = "x".repeat(LONGEST_STICKY_KEY + 1);
        let sticky = format!(r#"{{"when":{{"A":"1"}},"pools":["web"],"sticky":"${{A}}{long}"}}"#);
        let unknown = r#"{"pools":["x-${A}"]}"#;
        let refused = of(&format!("{sticky},{unknown}")).unwrap_err();
        assert!(
            refused.contains("rules[0].sticky: it is longer"),
            "{refused}"
        );
        assert!(
            refused.contains("rules[1].pools[0]: no further pool"),
            "{refused}"
        );
        assert_eq!(
            of(&format!(r#"{sticky},{{"pools":["db"]}}"#)).unwrap(),
            ["db"]
        );
        assert!(of("").unwrap_err().contains("ipam.rules is missing"));
    }

    #[test]
    fn what_a_fact_may_request_is_not_excluded() {
        let read = |ip: &str| {
            let pool = r#"{"web":{"subnet":"10.0.0.0/24","exclude":["10.0.0.0/24"]}}"#;
            let ipam = format!(r#"{{"pools":{pool},"rules":[{{"pools":["web"],"ip":"{ip}"}}]}}"#);
            let json = format!(r#"{{"cniVersion":"1.1.0","name":"net","ipam":{ipam}}}"#);
            let config = NetworkConfig::parse(json.into_bytes()).unwrap();
            let all = alternatives(&Catalogue::of(&config).unwrap()).unwrap();
            all[0][0].get("exclude").is_some()
        };
        assert_eq!((read("${IP}"), read("10.0.0.9")), (false, true));
    }
}

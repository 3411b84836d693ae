//! The catalogue: all pools and rules, verified together.

use std::collections::HashMap;
use std::net::IpAddr;

use cni::{Error, Object};
use ipam::Disjoint;

use crate::pool::CataloguePool;
use crate::rule::Rule;
use crate::source::Source;
use crate::template::Template;

/// All pools in the order of their definitions, and all rules in the order in which they are
/// tried.
#[derive(Clone, Debug)]
pub(crate) struct Catalogue {
    pub(crate) pools: Vec<CataloguePool>,
    pub(crate) rules: Vec<Rule<'static>>,
}

impl Catalogue {
    /// Reads the catalogue from its sources, the first one's rules first.
    ///
    /// # Errors
    ///
    /// Code 7, naming file, key and value: an invalid pool or rule; a duplicate name; pools that
    /// overlap; a rule with an unknown pool, with an address that its pools can't give, or after a
    /// rule that always holds.
    pub(crate) fn read(sources: &[Source]) -> Result<Self, Error> {
        let (mut pools, by_name) = read_pools(sources)?;
        let by_address = disjoint(&pools)?;
        let mut rules = Vec::new();
        // The path of the rule that always holds.
        let mut last: Option<String> = None;
        for source in sources {
            for (number, written) in (0..).zip(&source.rules) {
                let rule = Rule::read(&source.prefix, number, written)?;
                let path = rule.path();
                if let Some(earlier) = &last {
                    return Err(Error::config(format!(
                        "{path}: it is never reached, since {earlier} always holds"
                    )));
                }
                last = rule.when.is_empty().then(|| path.clone());
                let named = pools_of(&rule, &by_name)?;
                let mut requested: Vec<usize> = Vec::new();
                for (key, ip) in rule.literal_ips()? {
                    let at = format!("{path}.{key}: {ip}");
                    let Some(pool) = pool_of(&at, ip, &named, &pools, &by_address)? else {
                        continue;
                    };
                    if requested.contains(&pool) {
                        let name = &pools[pool].name;
                        return Err(Error::config(format!(
                            "{at} is a second address of pool {name}, which yields one"
                        )));
                    }
                    requested.push(pool);
                    pools[pool].chosen.pinned.insert(ip);
                }
                rules.push(rule);
            }
        }
        Ok(Self { pools, rules })
    }
}

fn read_pools(sources: &[Source]) -> Result<(Vec<CataloguePool>, HashMap<String, usize>), Error> {
    let mut pools: Vec<CataloguePool> = Vec::new();
    let mut by_name: HashMap<String, usize> = HashMap::new();
    for source in sources {
        for (name, raw) in source.pools.iter() {
            let path = format!("{}pools.{name}", source.prefix);
            if let Some(earlier) = by_name.insert(name.to_owned(), pools.len()) {
                let earlier = &pools[earlier].path;
                return Err(Error::config(if *earlier == path {
                    format!("{path} occurs twice")
                } else {
                    format!("{path} is defined twice, the first time as {earlier}")
                }));
            }
            let written: Option<Object> = cni::read(&path, raw)?;
            pools.push(CataloguePool::read(
                path,
                name,
                &written.unwrap_or_default(),
            )?);
        }
    }
    Ok((pools, by_name))
}

/// The owner of each address.
fn disjoint(pools: &[CataloguePool]) -> Result<Disjoint, Error> {
    let mut disjoint = Disjoint::default();
    for (i, pool) in pools.iter().enumerate() {
        let Some(ranges) = &pool.ranges else { continue };
        if let Err(earlier) = disjoint.add(ranges, i) {
            let CataloguePool {
                path,
                ranges: other,
                ..
            } = &pools[earlier];
            let other = other.as_ref().expect("what overlaps has ranges");
            return Err(Error::config(format!(
                "{}: {ranges} overlaps {other} of {path}",
                pool.path
            )));
        }
    }
    Ok(disjoint)
}

/// The pools of a rule; `None` for a name that contains a fact.
fn pools_of(
    rule: &Rule<'_>,
    by_name: &HashMap<String, usize>,
) -> Result<Vec<Option<usize>>, Error> {
    let names = rule.pools.iter().map(Template::literal).enumerate();
    names
        .map(|(i, name)| {
            let Some(name) = name else { return Ok(None) };
            let pool = by_name.get(name).copied();
            pool.map(Some).ok_or_else(|| {
                Error::config(format!(
                    "{}.pools[{i}]: there is no pool {name:?}",
                    rule.path()
                ))
            })
        })
        .collect()
}

/// The pool of an address that a rule pins; `None` if that pool has no ranges.
fn pool_of(
    at: &str,
    ip: IpAddr,
    named: &[Option<usize>],
    pools: &[CataloguePool],
    by_address: &Disjoint,
) -> Result<Option<usize>, Error> {
    let owner = by_address
        .owner(ip)
        .or_else(|| by_address.owner(ip.to_canonical()));
    let may_lead_to = |pool: &usize| {
        named
            .iter()
            .any(|named| named.is_none_or(|named| named == *pool))
    };
    let refused = |why: String| Err(Error::config(format!("{at} {why}")));
    match owner.filter(may_lead_to) {
        Some(pool) => {
            let range = pools[pool]
                .ranges
                .as_ref()
                .and_then(|ranges| ranges.range_of(ip));
            match range.filter(|range| range.gateway() == ip.to_canonical()) {
                Some(range) => refused(format!("is the gateway of {}", range.subnet())),
                None => Ok(Some(pool)),
            }
        }
        None if named
            .iter()
            .any(|named| named.is_none_or(|pool| pools[pool].ranges.is_none())) =>
        {
            Ok(None)
        }
        None => refused("is in none of the rule's pools".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn catalogue(sources: &[(&str, &str)]) -> Result<Catalogue, String> {
        let sources: Result<Vec<Source>, Error> = sources
            .iter()
            .map(|(path, json)| match *path {
                "ipam" => Source::of_configuration(&serde_json::from_str(json).unwrap()),
                path => Source::of_file(path, json.as_bytes()),
            })
            .collect();
        sources
            .and_then(|sources| Catalogue::read(&sources))
            .map_err(|error| error.msg)
    }

    #[test]
    fn the_configurations_rules_come_first_then_those_of_the_files() {
        let catalogue = catalogue(&[
            (
                "ipam",
                r#"{"pools":{"a":{}},"rules":[{"when":{"X":"1"},"pools":["b"]}]}"#,
            ),
            (
                "/d/1.json",
                r#"{"pools":{"b":{}},"rules":[{"when":{"X":"2"},"pools":["a"]}]}"#,
            ),
            ("/d/2.json", r#"{"rules":[{"pools":["a"]}]}"#),
        ])
        .unwrap();
        let paths: Vec<String> = catalogue.rules.iter().map(Rule::path).collect();
        assert_eq!(
            paths,
            [
                "ipam.rules[0]",
                "/d/1.json: rules[0]",
                "/d/2.json: rules[0]"
            ]
        );
    }

    #[test]
    fn each_refusal_names_file_rule_and_key() {
        let own = r#"{"pools":{"a":{"subnet":"10.0.0.0/24"},"lan":{}}}"#;
        for (file, message) in [
            (
                "[]",
                "/d/1.json: no valid JSON object: invalid type: sequence, expected an object at line 1 column 0",
            ),
            (
                r#"{"rule":[]}"#,
                "/d/1.json: rule is unknown; a file has pools and rules",
            ),
            (
                r#"{"rules":[],"rules":[]}"#,
                "/d/1.json: rules occurs twice",
            ),
            (
                r#"{"rules":{}}"#,
                "/d/1.json: rules: invalid type: map, expected a sequence",
            ),
            (
                r#"{"pools":{"a":{}}}"#,
                "/d/1.json: pools.a is defined twice, the first time as ipam.pools.a",
            ),
            (
                r#"{"pools":{"b":{},"b":{}}}"#,
                "/d/1.json: pools.b occurs twice",
            ),
            (
                r#"{"pools":{"b":{"subnet":"10.0.0.0/25"}}}"#,
                "/d/1.json: pools.b: 10.0.0.1-10.0.0.126 overlaps 10.0.0.1-10.0.0.254 of ipam.pools.a",
            ),
            (
                r#"{"rules":[{"pools":["a","x"]}]}"#,
                "/d/1.json: rules[0].pools[1]: there is no pool \"x\"",
            ),
            (
                r#"{"rules":[{"pools":["a"]},{"pools":["lan"]}]}"#,
                "/d/1.json: rules[1]: it is never reached, since /d/1.json: rules[0] always holds",
            ),
            (
                r#"{"rules":[{"pools":["a"],"ip":"10.0.1.5"}]}"#,
                "/d/1.json: rules[0].ip: 10.0.1.5 is in none of the rule's pools",
            ),
            (
                r#"{"rules":[{"pools":["a","lan"],"ips":["10.0.0.5","10.0.0.6"]}]}"#,
                "/d/1.json: rules[0].ips[1]: 10.0.0.6 is a second address of pool a, which yields one",
            ),
            (
                r#"{"rules":[{"pools":["a"],"ip":"10.0.0.1"}]}"#,
                "/d/1.json: rules[0].ip: 10.0.0.1 is the gateway of 10.0.0.0/24",
            ),
        ] {
            let refused = catalogue(&[("ipam", own), ("/d/1.json", file)]);
            assert_eq!(refused.unwrap_err(), message);
        }
    }

    #[test]
    fn an_address_pins_the_pool_that_it_lies_in() {
        let catalogue = catalogue(&[(
            "ipam",
            r#"{"pools":{"a":{"subnet":"10.0.0.0/24"},"b":{"subnet":"fd00::/64"},"lan":{}},
                "rules":[{"when":{"X":"1"},"pools":["a","b"],"ips":["fd00::5","::ffff:10.0.0.5"]},
                         {"when":{"X":"2"},"pools":["${X}"],"ip":"10.0.0.6"},
                         {"when":{"X":"3"},"pools":["lan"],"ip":"192.0.2.1"},
                         {"pools":["a"],"ip":"${IP}"}]}"#,
        )])
        .unwrap();
        let pinned: Vec<usize> = catalogue
            .pools
            .iter()
            .map(|pool| pool.chosen.pinned.len())
            .collect();
        assert_eq!(pinned, [2, 1, 0]);
    }

    proptest! {
        #[test]
        fn pools_overlap_whatever_the_order_of_the_files(
            subnets in proptest::collection::vec((0u8..8, 24u8..29), 1..6),
            turn in 0usize..6,
        ) {
            let mut files: Vec<(String, String)> = subnets
                .iter()
                .enumerate()
                .map(|(i, (net, prefix))| {
                    let subnet = format!("10.0.{net}.0/{prefix}");
                    (format!("/{i}"), format!(r#"{{"pools":{{"p{i}":{{"subnet":"{subnet}"}}}}}}"#))
                })
                .collect();
            let overlap = (0..subnets.len())
                .any(|i| (0..i).any(|j| subnets[i].0 == subnets[j].0));
            let read = |files: &[(String, String)]| {
                let files: Vec<(&str, &str)> = files.iter().map(|(a, b)| (&**a, &**b)).collect();
                catalogue(&files).is_err()
            };
            prop_assert_eq!(read(&files), overlap);
            files.rotate_left(turn % subnets.len());
            prop_assert_eq!(read(&files), overlap);
            files.reverse();
            prop_assert_eq!(read(&files), overlap);
        }
    }
}

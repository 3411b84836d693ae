//! The catalogue: all pools and rules, verified together.
//!
//! Each [`Source`], the network configuration or a file, is read by itself. Here the names, the
//! addresses and the pins of all are compared, so that no call finds a contradiction between two files.
//! A [`Choice`] is what one rule chooses from the catalogue.

use std::path::PathBuf;

use cni::{Error, NetworkConfig, Object};
use ipam::Facts;

use crate::choice::Choice;
use crate::named_pools::NamedPools;
use crate::rule::Rule;
use crate::source::Source;

/// All pools, and all rules in the order in which they are tried.
#[derive(Clone, Debug)]
pub(crate) struct Catalogue {
    pub(crate) pools: NamedPools,
    pub(crate) rules: Vec<Rule>,
}

impl Catalogue {
    /// The catalogue of a network configuration.
    ///
    /// # Errors
    ///
    /// Code 7, naming file, key and value: an invalid pool or rule; a duplicate name; pools that
    /// overlap; a rule with an unknown pool, with an address that its pools can't give, or after a rule
    /// that always holds. Code 5 for a folder or a file that can't be read.
    pub(crate) fn of(config: &NetworkConfig) -> Result<Self, Error> {
        let ipam = config.ipam()?;
        let folder = ipam.absolute_path("ipam", "poolsDir")?;
        Self::read(Source::all(&ipam)?, folder)
    }

    /// The catalogue of these sources; `folder` is `ipam.poolsDir`, for messages.
    pub(crate) fn read(sources: Vec<Source>, folder: Option<PathBuf>) -> Result<Self, Error> {
        let files: Vec<&str> = sources.iter().filter_map(Source::file).collect();
        let places = match folder {
            None => "ipam.pools, and no ipam.poolsDir".to_owned(),
            Some(folder) if files.is_empty() => {
                format!("ipam.pools, and no file in {}", folder.display())
            }
            Some(_) => format!("ipam.pools or in {}", files.join(", ")),
        };
        let mut catalogue = Self {
            pools: NamedPools::new(places),
            rules: Vec::new(),
        };
        for source in &sources {
            for (name, written) in source.pools.iter() {
                let path = [&*source.prefix, "pools.", name].concat();
                let written: Option<Object> = cni::read(&path, written)?;
                catalogue
                    .pools
                    .add(path, name, written.unwrap_or_default())?;
            }
        }
        for Source { prefix, rules, .. } in sources {
            for (number, written) in rules.iter().enumerate() {
                let path = [&*prefix, "rules[", &number.to_string(), "]"].concat();
                catalogue.add_rule(Rule::read(path, written)?)?;
            }
        }
        Ok(catalogue)
    }

    /// Adds a rule behind the others. All pools are there already.
    fn add_rule(&mut self, rule: Rule) -> Result<(), Error> {
        if let Some(earlier) = self.rules.last().filter(|rule| rule.always_holds()) {
            return Err(Error::config(format!(
                "{}: it is never reached, since {} always holds",
                rule.path, earlier.path
            )));
        }
        let pinned = Choice::for_any_container(&self.pools, &rule, &Facts::default())?.pinned()?;
        self.pools.pinned.extend(pinned);
        self.rules.push(rule);
        Ok(())
    }

    /// The first rule that holds for a container with these facts.
    ///
    /// # Errors
    ///
    /// Code 7, listing the facts, if none does.
    pub(crate) fn first_that_holds(&self, facts: &Facts) -> Result<&Rule, Error> {
        if self.rules.is_empty() {
            return Err(Error::config(
                "ipam.rules is missing or empty, and ipam.poolsDir has no rule: no pool is chosen",
            ));
        }
        let mut rules = self.rules.iter();
        rules.find(|rule| rule.holds(facts)).ok_or_else(|| {
            Error::config(format!(
                "no rule of ipam.rules and ipam.poolsDir holds for {facts}"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The catalogue of an `ipam` section and of files, each a path and its content.
    fn catalogue(ipam: &str, files: &[(&str, &str)]) -> Result<Catalogue, String> {
        let of_files = files
            .iter()
            .map(|(path, json)| Source::of_file(path, json.as_bytes()));
        Source::all(&serde_json::from_str(ipam).unwrap())
            .and_then(|mut sources| {
                for source in of_files {
                    sources.push(source?);
                }
                Catalogue::read(sources, Some("/d".into()))
            })
            .map_err(|error| error.msg)
    }

    #[test]
    fn the_configurations_rules_come_first_then_those_of_the_files() {
        let catalogue = catalogue(
            r#"{"pools":{"a":{}},"rules":[{"when":{"X":"1"},"pools":["b"]}]}"#,
            &[
                (
                    "/d/1.json",
                    r#"{"pools":{"b":{}},"rules":[{"when":{"X":"2"},"pools":["a"]}]}"#,
                ),
                ("/d/2.json", r#"{"rules":[{"pools":["a"]}]}"#),
            ],
        )
        .unwrap();
        let paths: Vec<&str> = catalogue.rules.iter().map(|rule| &*rule.path).collect();
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
                "7",
                "invalid type: integer `7`, expected an object at line 1 column 1",
            ),
            (
                r#"{"rule":[]}"#,
                "rule: there is no such key, only pools, rules, installedBy",
            ),
            (
                r#"{"rules":[],"Rules":[7]}"#,
                "rules is there as \"Rules\", too; write one of the two",
            ),
            (
                r#"{"rules":[7]}"#,
                "rules[0]: invalid type: integer `7`, expected an object",
            ),
            (
                r#"{"pools":{"a":{}}}"#,
                "pools.a is defined twice, the first time as ipam.pools.a",
            ),
            (
                r#"{"pools":{"b":{"subnet":"10.0.0.0/25"}}}"#,
                "pools.b: 10.0.0.1-10.0.0.126 overlaps 10.0.0.1-10.0.0.254 of ipam.pools.a",
            ),
            (
                r#"{"rules":[{"pools":["a","x"]}]}"#,
                "rules[0].pools[1]: there is no pool \"x\" in ipam.pools or in /d/1.json",
            ),
            (
                r#"{"rules":[{"pools":["a","a"]}]}"#,
                "rules[0].pools[1]: the pool \"a\" is chosen twice",
            ),
            (
                r#"{"rules":[{"pools":["a"]},{"pools":["lan"]}]}"#,
                "rules[1]: it is never reached, since /d/1.json: rules[0] always holds",
            ),
            (
                r#"{"rules":[{"pools":["a"],"ip":"x"}]}"#,
                "rules[0].ip: \"x\" is no IP address",
            ),
            (
                r#"{"rules":[{"pools":["a"],"ip":"10.0.1.5"}]}"#,
                "rules[0].ip: 10.0.1.5 is in none of the pools of /d/1.json: rules[0]",
            ),
            (
                r#"{"rules":[{"pools":["a","lan"],"ips":["10.0.0.5","10.0.0.6"]}]}"#,
                "rules[0].ips[1]: 10.0.0.6 is in pool a, of which /d/1.json: rules[0].ips[0] requests 10.0.0.5",
            ),
            (
                r#"{"rules":[{"pools":["a",["lan","a"]]}]}"#,
                "rules[0].pools[1][1]: the pool \"a\" is chosen twice",
            ),
            (
                r#"{"rules":[{"pools":["a"],"ip":{"range":"10.0.0.9-10.0.1.5","index":"${A}"}}]}"#,
                "rules[0].ip.range: 10.0.0.9-10.0.1.5 is in none of the pools of /d/1.json: rules[0]",
            ),
            (
                r#"{"rules":[{"pools":["a"],"ip":{"range":"10.0.0.0-10.0.0.9","index":"${A}"}}]}"#,
                "rules[0].ip: 10.0.0.0 is in none of the pools of /d/1.json: rules[0]",
            ),
            (
                r#"{"rules":[{"pools":["a"],"ip":"10.0.0.1"}]}"#,
                "rules[0].ip: 10.0.0.1 is the gateway of 10.0.0.0/24",
            ),
        ] {
            let refused = catalogue(own, &[("/d/1.json", file)]);
            assert_eq!(refused.unwrap_err(), format!("/d/1.json: {message}"));
        }
    }

    #[test]
    fn an_address_is_pinned_if_its_text_has_no_fact() {
        let catalogue = catalogue(
            r#"{"pools":{"a":{"subnet":"10.0.0.0/24"},"b":{"subnet":"fd00::/64"},"lan":{}},
                "rules":[{"when":{"X":"1"},"pools":["a","b"],"ips":["fd00::5","::ffff:10.0.0.5"]},
                         {"when":{"X":"2"},"pools":["${X}"],"ip":"10.0.0.6"},
                         {"when":{"X":"3"},"pools":["lan"],"ip":"192.0.2.1"},
                         {"when":{"X":"4"},"pools":["a"],"ip":{"range":"10.0.0.8/30","index":"${X}"}},
                         {"pools":["a"],"ip":"${IP}"}]}"#,
            &[],
        )
        .unwrap();
        let pinned = catalogue
            .pools
            .pinned
            .iter()
            .map(|ips| ips.first().to_string());
        assert_eq!(
            pinned.collect::<Vec<_>>(),
            ["fd00::5", "10.0.0.5", "10.0.0.6", "192.0.2.1", "10.0.0.8"]
        );
        assert_eq!(catalogue.pools.pinned[4].size(), 4);
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
            let is_refused = |files: &[(String, String)]| {
                let files: Vec<(&str, &str)> = files.iter().map(|(a, b)| (&**a, &**b)).collect();
                catalogue("{}", &files).is_err()
            };
            prop_assert_eq!(is_refused(&files), overlap);
            files.rotate_left(turn % subnets.len());
            prop_assert_eq!(is_refused(&files), overlap);
            files.reverse();
            prop_assert_eq!(is_refused(&files), overlap);
        }
    }
}

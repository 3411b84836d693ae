//! A rule: conditions, pools, requested addresses, a sticky key.

use std::borrow::Cow;
use std::collections::HashSet;
use std::net::IpAddr;

use cni::{Error, Object};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::condition::Condition;
use crate::facts::{self, Facts};
use crate::template::Template;

/// The keys of a rule.
const KEYS: [&str; 5] = ["when", "pools", "ip", "ips", "sticky"];

/// A rule that is valid by itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Rule<'a> {
    /// The prefix of its source in messages: `ipam.`.
    #[serde(borrow)]
    source: Cow<'a, str>,
    /// Its index in the source.
    number: u32,
    /// The conditions; all must hold. They are serialized one by one.
    #[serde(skip)]
    pub(crate) when: Vec<When<'a>>,
    /// The names of its pools.
    #[serde(borrow)]
    pub(crate) pools: Vec<Template<'a>>,
    /// The requested addresses.
    #[serde(borrow)]
    pub(crate) ips: Vec<Template<'a>>,
    /// True if the key is `ips`, false for `ip`.
    is_list: bool,
    /// The sticky key.
    #[serde(borrow)]
    pub(crate) sticky: Option<Template<'a>>,
}

/// A condition with the name of its fact.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct When<'a> {
    #[serde(borrow)]
    pub(crate) fact: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) must_be: Condition<'a>,
}

impl<'a> Rule<'a> {
    /// Its name in messages: `ipam.rules[3]`.
    pub(crate) fn path(&self) -> String {
        format!("{}rules[{}]", self.source, self.number)
    }

    /// The key of a requested address: `ip`, or `ips[0]`.
    pub(crate) fn key_of_ip(&self, index: usize) -> String {
        if self.is_list {
            format!("ips[{index}]")
        } else {
            "ip".to_owned()
        }
    }

    /// The first unmet condition; `None` if the rule holds.
    pub(crate) fn unmet(&self, facts: &Facts) -> Option<&When<'a>> {
        let mut when = self.when.iter();
        when.find(|when| !when.is_met(facts))
    }
}

impl When<'_> {
    /// True if the condition holds.
    pub(crate) fn is_met(&self, facts: &Facts) -> bool {
        self.must_be.holds(facts.get(&self.fact))
    }
}

impl Rule<'static> {
    /// Reads a rule. `source` is the prefix of its source, and `number` its index there.
    ///
    /// # Errors
    ///
    /// Code 7, naming the key and the value.
    pub(crate) fn read(source: &str, number: u32, object: &Object) -> Result<Self, Error> {
        let path = format!("{source}rules[{number}]");
        verify_keys(&path, object)?;
        let when = object.read::<Object>(&path, "when")?.unwrap_or_default();
        let when = conditions(&format!("{path}.when"), &when)?;
        let pools = templates(&path, object, "pools")?;
        if pools.is_empty() {
            return Err(Error::config(format!(
                "{path}.pools is missing or empty: a rule leads to one pool at least"
            )));
        }
        let mut seen = HashSet::new();
        for (i, pool) in pools.iter().enumerate() {
            if !seen.insert(pool.as_written()) {
                let name = pool.as_written();
                return Err(Error::config(format!(
                    "{path}.pools[{i}]: {name:?} occurs twice"
                )));
            }
        }
        let ips = match object.read::<String>(&path, "ip")? {
            None => templates(&path, object, "ips")?,
            Some(_) if object.get("ips").is_some() => {
                return Err(Error::config(format!(
                    "{path}.ip and ips are both set; a rule has only one of them"
                )));
            }
            Some(ip) => vec![template(&format!("{path}.ip"), ip)?],
        };
        if ips.len() > pools.len() {
            return Err(Error::config(format!(
                "{path}.ips has {} addresses for {} pools; each pool yields one",
                ips.len(),
                pools.len()
            )));
        }
        let sticky = object.read::<String>(&path, "sticky")?;
        let sticky = sticky.map(|text| template(&format!("{path}.sticky"), text));
        Ok(Self {
            source: source.to_owned().into(),
            number,
            when,
            pools,
            is_list: object.get("ips").is_some(),
            ips,
            sticky: sticky.transpose()?,
        })
    }

    /// The requested addresses that contain no fact, each with its key.
    ///
    /// # Errors
    ///
    /// Code 7, naming the key and the value, for an invalid address.
    pub(crate) fn literal_ips(&self) -> Result<Vec<(String, IpAddr)>, Error> {
        let literal = self.ips.iter().enumerate();
        let literal = literal.filter_map(|(i, ip)| Some((self.key_of_ip(i), ip.literal()?)));
        literal
            .map(|(key, text)| match ipam::parse_address(text) {
                Some(ip) => Ok((key, ip)),
                None => Err(Error::config(format!(
                    "{}.{key}: {text:?} is no IP address",
                    self.path()
                ))),
            })
            .collect()
    }
}

fn verify_keys(path: &str, object: &Object) -> Result<(), Error> {
    let mut seen: Vec<&str> = Vec::new();
    for key in object.keys() {
        if !KEYS.contains(&key) {
            return Err(Error::config(format!(
                "{path}.{key} is no key of a rule; these are: {}",
                KEYS.join(", ")
            )));
        }
        if seen.contains(&key) {
            return Err(Error::config(format!("{path}.{key} occurs twice")));
        }
        seen.push(key);
    }
    Ok(())
}

fn conditions(path: &str, when: &Object) -> Result<Vec<When<'static>>, Error> {
    let mut seen: HashSet<&str> = HashSet::new();
    let mut conditions = Vec::new();
    for (name, raw) in when.iter() {
        let path = format!("{path}.{name}");
        facts::verify_name(name).map_err(|why| Error::config(format!("{path}: {why}")))?;
        if !seen.insert(name) {
            return Err(Error::config(format!("{path} occurs twice")));
        }
        let value: Value = cni::read(&path, raw)?;
        conditions.push(When {
            fact: name.to_owned().into(),
            must_be: Condition::read(&path, value)?,
        });
    }
    Ok(conditions)
}

fn templates(path: &str, object: &Object, key: &str) -> Result<Vec<Template<'static>>, Error> {
    let texts: Vec<String> = object.read(path, key)?.unwrap_or_default();
    let read = |(i, text)| template(&format!("{path}.{key}[{i}]"), text);
    texts.into_iter().enumerate().map(read).collect()
}

fn template(path: &str, text: String) -> Result<Template<'static>, Error> {
    Template::read(text).map_err(|why| Error::config(format!("{path}: {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(json: &str) -> Result<Rule<'static>, String> {
        let object = serde_json::from_str(json).unwrap();
        Rule::read("", 0, &object).map_err(|error| error.msg)
    }

    #[test]
    fn each_key_is_read() {
        let read = rule(
            r#"{"when":{"A":"x","label:b":null},"pools":["p","${A}"],"ips":["10.0.0.5/24","${A}"],"sticky":"${A}"}"#,
        )
        .unwrap();
        assert_eq!(read.when.len(), 2);
        assert_eq!(read.pools[0].literal(), Some("p"));
        let literal = ("ips[0]".to_owned(), "10.0.0.5".parse().unwrap());
        assert_eq!(read.literal_ips().unwrap(), [literal]);
        assert!(read.sticky.is_some());
        let least = rule(r#"{"pools":["p"],"when":null,"ip":null,"sticky":null}"#).unwrap();
        assert!(least.when.is_empty() && least.ips.is_empty());
    }

    #[test]
    fn each_refusal_names_the_key_and_the_value() {
        for (json, message) in [
            (
                "{}",
                ".pools is missing or empty: a rule leads to one pool at least",
            ),
            (
                r#"{"pools":[]}"#,
                ".pools is missing or empty: a rule leads to one pool at least",
            ),
            (r#"{"pools":["a","a"]}"#, ".pools[1]: \"a\" occurs twice"),
            (
                r#"{"pools":["a","${b"]}"#,
                ".pools[1]: \"${b\" has a ${ without }",
            ),
            (
                r#"{"pool":["a"]}"#,
                ".pool is no key of a rule; these are: when, pools, ip, ips, sticky",
            ),
            (r#"{"pools":["a"],"pools":["b"]}"#, ".pools occurs twice"),
            (
                r#"{"pools":["a"],"ip":"1","ips":[]}"#,
                ".ip and ips are both set; a rule has only one of them",
            ),
            (
                r#"{"pools":["a"],"ips":["10.0.0.1","10.0.0.2"]}"#,
                ".ips has 2 addresses for 1 pools; each pool yields one",
            ),
            (
                r#"{"pools":["a"],"when":{"A":"x","A":"y"}}"#,
                ".when.A occurs twice",
            ),
            (
                r#"{"pools":["a"],"when":{"A":7}}"#,
                ".when.A: 7 is no condition; a text, an array, {\"not\": …} and null are",
            ),
            (
                r#"{"pools":["a"],"sticky":7}"#,
                ".sticky: invalid type: integer `7`, expected a string",
            ),
        ] {
            assert_eq!(rule(json).unwrap_err(), format!("rules[0]{message}"));
        }
        let error = rule(r#"{"pools":["a"],"ip":"x"}"#).unwrap().literal_ips();
        assert_eq!(
            error.unwrap_err().msg,
            "rules[0].ip: \"x\" is no IP address"
        );
    }
}

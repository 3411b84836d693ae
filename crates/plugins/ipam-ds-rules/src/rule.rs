//! A rule: conditions, pools, requested addresses, a sticky key.

use std::collections::BTreeMap;
use std::fmt;

use cni::{Error, Object};
use serde_json::value::RawValue;

use crate::condition::Condition;
use crate::facts::{FactName, Facts};
use crate::template::Template;

/// The keys of a rule.
const KEYS: [&str; 5] = ["when", "pools", "ip", "ips", "sticky"];

/// A rule that is valid by itself.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    /// Its name in messages: `ipam.rules[3]`.
    pub(crate) path: String,
    /// The conditions; all must hold.
    when: Option<BTreeMap<FactName, Condition>>,
    /// The names of its pools.
    pub(crate) pools: Vec<Template>,
    ip: Option<Template>,
    ips: Option<Vec<Template>>,
    /// The sticky key.
    pub(crate) sticky: Option<Template>,
}

/// A key of a rule with a template.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Key {
    Pool(usize),
    Ip,
    IpOfList(usize),
    Sticky,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pool(i) => write!(f, "pools[{i}]"),
            Self::Ip => f.write_str("ip"),
            Self::IpOfList(i) => write!(f, "ips[{i}]"),
            Self::Sticky => f.write_str("sticky"),
        }
    }
}

impl Rule {
    /// Reads a rule; `path` is its name in messages.
    ///
    /// # Errors
    ///
    /// Code 7, naming the key and the value.
    pub(crate) fn read(path: String, written: &RawValue) -> Result<Self, Error> {
        let object: Object = cni::read(&path, written)?;
        object.expect_only(&path, &KEYS)?;
        let read = Self {
            when: object.read(&path, "when")?,
            pools: object.required(&path, "pools")?,
            ip: object.read(&path, "ip")?,
            ips: object.read(&path, "ips")?,
            sticky: object.read(&path, "sticky")?,
            path,
        };
        let path = &read.path;
        if read.pools.is_empty() {
            return Err(Error::config(format!(
                "{path}.pools is empty: a rule leads to one pool at least"
            )));
        }
        if read.ip.is_some() && read.ips.is_some() {
            return Err(Error::config(format!(
                "{path}.ip and ips are both set; a rule has only one of them"
            )));
        }
        Ok(read)
    }

    /// True if the rule holds for a container with these facts.
    pub(crate) fn holds(&self, facts: &Facts) -> bool {
        let mut when = self.when.iter().flatten();
        when.all(|(fact, condition)| condition.holds(facts.get(fact.as_str())))
    }

    /// True if the rule has no condition.
    pub(crate) fn always_holds(&self) -> bool {
        self.when.iter().flatten().next().is_none()
    }

    /// The requested addresses, each with its key.
    pub(crate) fn ips(&self) -> impl Iterator<Item = (Key, &Template)> {
        let one = self.ip.iter().map(|ip| (Key::Ip, ip));
        let list = self.ips.iter().flatten().enumerate();
        one.chain(list.map(|(i, ip)| (Key::IpOfList(i), ip)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(json: &str) -> Result<Rule, String> {
        let written: Box<RawValue> = serde_json::from_str(json).unwrap();
        Rule::read("rules[0]".to_owned(), &written).map_err(|error| error.msg)
    }

    #[test]
    fn each_key_is_read() {
        let read = rule(
            r#"{"when":{"A":"x","label:b":null},"pools":["p","${A}"],"ips":["10.0.0.5/24","${A}"],"sticky":"${A}"}"#,
        )
        .unwrap();
        let ips: Vec<String> = read.ips().map(|(key, _)| key.to_string()).collect();
        assert_eq!(ips, ["ips[0]", "ips[1]"]);
        let least = rule(r#"{"pools":["p"],"when":null,"ip":null,"sticky":null}"#).unwrap();
        assert!(least.always_holds() && least.ips().next().is_none());
    }

    #[test]
    fn each_refusal_names_the_key_and_the_value() {
        for (json, message) in [
            ("{}", ".pools is missing"),
            (
                r#"{"pools":[]}"#,
                ".pools is empty: a rule leads to one pool at least",
            ),
            (
                r#"{"pools":["a","${b"]}"#,
                ".pools[1]: \"${b\" has a ${ without }",
            ),
            (
                r#"{"pool":["a"]}"#,
                ".pool: there is no such key, only when, pools, ip, ips, sticky",
            ),
            (
                r#"{"pools":["a"],"Pools":["b"]}"#,
                ".pools is there as \"Pools\", too; write one of the two",
            ),
            (
                r#"{"pools":["a"],"ip":"1","ips":[]}"#,
                ".ip and ips are both set; a rule has only one of them",
            ),
            (
                r#"{"pools":["a"],"when":{"A":7}}"#,
                ".when.A: no condition: neither a text, an array, {\"not\": …} nor null",
            ),
            (
                r#"{"pools":["a"],"when":{"labels:a":"x"}}"#,
                ".when.labels:a: \"labels:a\" is no fact: there are keys of CNI_ARGS, label:KEY, annotation:KEY, containerID, ifname and network",
            ),
            (
                r#"{"pools":["a"],"sticky":7}"#,
                ".sticky: invalid type: integer `7`, expected a string",
            ),
        ] {
            assert_eq!(rule(json).unwrap_err(), format!("rules[0]{message}"));
        }
    }
}

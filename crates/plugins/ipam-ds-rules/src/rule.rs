//! A rule: conditions, pools, requested addresses, a sticky key, an owner.

use std::collections::BTreeMap;
use std::fmt;

use cni::{Error, Object};
use ipam::Facts;

use crate::condition::Condition;
use crate::fact_name::FactName;
use crate::requested::Requested;
use crate::template::Template;
use crate::text_or::TextOr;

/// The keys of a rule.
const KEYS: [&str; 6] = ["when", "pools", "ip", "ips", "sticky", "owner"];

/// A rule that is valid by itself.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    /// Its name in messages: `ipam.rules[3]`.
    pub(crate) path: String,
    /// The conditions; all must hold.
    when: BTreeMap<FactName, Condition>,
    /// The names of its pools; of an array, the first pool that has an address yields it.
    pools: Vec<TextOr<Vec<Template>>>,
    /// The requested addresses, each with its key.
    pub(crate) ips: Vec<(Key, Requested)>,
    /// The sticky key.
    pub(crate) sticky: Option<Template>,
    /// What its addresses belong to.
    pub(crate) owner: Option<Template>,
}

/// A key of a rule with a template, such as `ip` or `pools[1][0]`: its name, and the indices in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key(&'static str, [Option<usize>; 2]);

impl Key {
    /// A key without an index.
    pub(crate) const fn named(name: &'static str) -> Self {
        Self(name, [None; 2])
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)?;
        let mut indices = self.1.iter().flatten();
        indices.try_for_each(|index| write!(f, "[{index}]"))
    }
}

impl Rule {
    /// Reads a rule; `path` is its name in messages.
    ///
    /// # Errors
    ///
    /// Code 7, naming the key and the value.
    pub(crate) fn read(path: String, object: &Object) -> Result<Self, Error> {
        object.expect_only(&path, &KEYS)?;
        Ok(Self {
            when: object.read(&path, "when")?.unwrap_or_default(),
            pools: pools(&path, object)?,
            ips: ips(&path, object)?,
            sticky: object.read(&path, "sticky")?,
            owner: object.read(&path, "owner")?,
            path,
        })
    }

    /// True if the rule holds for a container with these facts.
    pub(crate) fn holds(&self, facts: &Facts) -> bool {
        let mut when = self.when.iter();
        when.all(|(fact, condition)| condition.holds(facts.get(fact.as_str())))
    }

    /// Whether the rule holds for all containers with these facts, or for none; `None` if it depends
    /// on other facts.
    pub(crate) fn holds_for_any(&self, known: &Facts) -> Option<bool> {
        let mut holds = Some(true);
        for (name, condition) in &self.when {
            let for_any = match known.get(name.as_str()) {
                None => condition.holds_for_any(),
                fact => Some(condition.holds(fact)),
            };
            match for_any {
                Some(true) => {}
                Some(false) => return Some(false),
                None => holds = None,
            }
        }
        holds
    }

    /// True if the rule has no condition.
    pub(crate) fn always_holds(&self) -> bool {
        self.when.is_empty()
    }

    /// The names of its pools, each with its key: those of an array together.
    pub(crate) fn pools(&self) -> impl Iterator<Item = Vec<(Key, &Template)>> {
        self.pools.iter().enumerate().map(|(i, names)| match names {
            TextOr::Text(name) => vec![(Key("pools", [Some(i), None]), name)],
            TextOr::Longer(names) => {
                let key = |nth| Key("pools", [Some(i), Some(nth)]);
                let names = names.iter().enumerate();
                names.map(|(nth, name)| (key(nth), name)).collect()
            }
        })
    }
}

fn pools(path: &str, rule: &Object) -> Result<Vec<TextOr<Vec<Template>>>, Error> {
    let pools: Vec<TextOr<Vec<Template>>> = rule.required(path, "pools")?;
    let is_empty = |names: &_| matches!(names, TextOr::Longer(names) if Vec::is_empty(names));
    let empty = match pools.iter().position(is_empty) {
        _ if pools.is_empty() => "pools".to_owned(),
        Some(i) => format!("pools[{i}]"),
        None => return Ok(pools),
    };
    Err(Error::config(format!(
        "{path}.{empty} is empty: a rule leads to one pool at least"
    )))
}

fn ips(path: &str, rule: &Object) -> Result<Vec<(Key, Requested)>, Error> {
    let ip: Option<TextOr<Object>> = rule.read(path, "ip")?;
    let ips: Option<Vec<TextOr<Object>>> = rule.read(path, "ips")?;
    if ip.is_some() && ips.is_some() {
        return Err(Error::config(format!(
            "{path}.ip and ips are both set; a rule has only one of them"
        )));
    }
    let ip = ip.into_iter().map(|ip| (Key::named("ip"), ip));
    let ips = ips.into_iter().flatten().enumerate();
    ip.chain(ips.map(|(i, ip)| (Key("ips", [Some(i), None]), ip)))
        .map(|(key, ip)| Ok((key, Requested::read(&format!("{path}.{key}"), ip)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(json: &str) -> Result<Rule, String> {
        let written = serde_json::from_str(json).unwrap();
        Rule::read("rules[0]".to_owned(), &written).map_err(|error| error.msg)
    }

    #[test]
    fn each_key_is_read() {
        let read = rule(
            r#"{"when":{"A":"x","label:b":null},"pools":["p","${A}"],"ips":["10.0.0.5/24","${A}"],"sticky":"${A}"}"#,
        )
        .unwrap();
        let ips: Vec<String> = read.ips.iter().map(|(key, _)| key.to_string()).collect();
        assert_eq!(ips, ["ips[0]", "ips[1]"]);
        let overflow =
            rule(r#"{"pools":["p",["q","${A}"]],"ip":{"range":"10.0.0.1","index":"0"}}"#);
        let overflow = overflow.unwrap();
        let pools: Vec<String> = overflow
            .pools()
            .flatten()
            .map(|(key, _)| key.to_string())
            .collect();
        assert_eq!(pools, ["pools[0]", "pools[1][0]", "pools[1][1]"]);
        let least = rule(r#"{"pools":["p"],"when":null,"ip":null,"sticky":null}"#).unwrap();
        assert!(least.always_holds() && least.ips.is_empty());
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
                r#"{"pools":["a",["b","${c"]]}"#,
                ".pools[1][1]: \"${c\" has a ${ without }",
            ),
            (
                r#"{"pools":["a",[]]}"#,
                ".pools[1] is empty: a rule leads to one pool at least",
            ),
            (
                r#"{"pools":["a",7]}"#,
                ".pools[1]: invalid type: integer `7`, expected a text or an array of texts",
            ),
            (
                r#"{"pools":["a"],"ips":[{"range":"x","index":"0"}]}"#,
                ".ips[0].range: \"x\" is no address, no subnet and no interval of addresses",
            ),
            (
                r#"{"pool":["a"]}"#,
                ".pool: there is no such key, only when, pools, ip, ips, sticky, owner",
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
                r#"{"pools":["a"],"when":{"label:*":"x"}}"#,
                ".when.label:*: \"label:*\" is no fact: one of a family is written as label:KEY",
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

//! Facts of a container: `CNI_ARGS`, labels, annotations, the parameters of the call, the node, and
//! what earlier delegates have found.

use std::collections::BTreeMap;
use std::fmt;

use cni::{Call, Error, Excerpt, IpamResult, NetworkConfig, Object};

use crate::node_name;

/// The key of `runtimeConfig` in which containerd and CRI-O pass a pod's annotations.
pub const ANNOTATIONS: &str = "io.kubernetes.cri.pod-annotations";

/// The variables of a call that are facts, and the names of these facts.
const OF_CALL: [(&str, &str); 2] = [("containerID", "CNI_CONTAINERID"), ("ifname", "CNI_IFNAME")];

/// The name of the fact that is the network's name.
const NETWORK: &str = "network";

/// The name of the fact that is the node's name.
const NODE: &str = "node";

/// The key of a result in which a delegate passes facts on.
const KEY: &str = "facts";

/// The key that stands for all facts of a family: with `null`, the delegate decides the family.
const ALL: &str = "*";

/// Most facts that a message lists.
const MOST_SHOWN: usize = 50;

/// The facts of a call, by name.
#[derive(Clone, Debug, Default)]
pub struct Facts(BTreeMap<String, String>);

impl Facts {
    /// The facts of a call: `KEY` for each key of `CNI_ARGS`, `label:KEY` for each of
    /// `args.cni.labels`, `annotation:KEY` for each pod annotation in `runtimeConfig`,
    /// `containerID`, `ifname`, `network` and `node`; and `prevResult.facts`, which earlier
    /// delegates have found. These win: whoever starts a container may write `CNI_ARGS`. Of a family
    /// that they decide (`"label:*": null`), only theirs count.
    ///
    /// # Errors
    ///
    /// Code 4 for a malformed `CNI_ARGS`; code 7 for labels, annotations and other facts that
    /// aren't texts. Both name the key.
    pub fn of(call: &Call<'_>) -> Result<Self, Error> {
        let mut all = Self::of_runtime(call)?;
        let found = of_delegates(&call.config)?;
        let is_decided = |name: &String| {
            let family = name.split_once(':').map(|(family, _)| family);
            family.is_some_and(|family| found.contains_key(&format!("{family}:{ALL}")))
        };
        all.0.retain(|name, _| !is_decided(name));
        for (name, fact) in found {
            match fact {
                Some(fact) => all.0.insert(name, fact),
                None => all.0.remove(&name),
            };
        }
        Ok(all)
    }

    fn of_runtime(call: &Call<'_>) -> Result<Self, Error> {
        let mut all = Self::default();
        for (key, value) in call.args()?.iter().filter(|(key, _)| !is_reserved(key)) {
            all.insert(key, value);
        }
        for (key, value) in labels(&call.config)? {
            all.insert(&format!("label:{key}"), &value);
        }
        for (key, value) in annotations(&call.config)? {
            all.insert(&format!("annotation:{key}"), &value);
        }
        for (name, variable) in OF_CALL {
            let value = call.environment.text(variable);
            if !value.is_empty() {
                all.insert(name, &value);
            }
        }
        all.insert(NETWORK, call.config.name().as_str());
        let ipam = call.config.section("ipam")?.unwrap_or_default();
        all.insert(NODE, &node_name(&ipam)?.name);
        Ok(all)
    }

    /// The result of a facts delegate: everything in `prevResult`, with these facts beside those
    /// that are there. `None` says that the fact is missing, whatever the runtime says; as the value
    /// of `label:*`, that all labels which aren't in `facts` are.
    ///
    /// # Errors
    ///
    /// Code 7 if `prevResult` is invalid, naming the key.
    pub fn append(
        config: &NetworkConfig,
        facts: impl IntoIterator<Item = (String, Option<String>)>,
    ) -> Result<IpamResult, Error> {
        let mut found = of_delegates(config)?;
        found.extend(facts);
        let mut result = config.prev_result()?.unwrap_or_default();
        result.set_other(KEY, &found);
        Ok(result)
    }

    /// The fact of this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// All facts, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(name, fact)| (name.as_str(), fact.as_str()))
    }

    fn insert(&mut self, name: &str, fact: &str) {
        self.0.insert(name.to_owned(), fact.to_owned());
    }
}

impl fmt::Display for Facts {
    /// `K8S_POD_NAME="db-0", containerID="c1"`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (name, fact)) in self.iter().take(MOST_SHOWN).enumerate() {
            let separator = if i == 0 { "" } else { ", " };
            write!(f, "{separator}{}=\"{}\"", Excerpt(name), Excerpt(fact))?;
        }
        match self.0.len().saturating_sub(MOST_SHOWN) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// True for a key of `CNI_ARGS` that looks like another kind of fact.
fn is_reserved(key: &str) -> bool {
    let is_of_call = OF_CALL.iter().any(|(name, _)| *name == key);
    key.contains(':') || key == NETWORK || key == NODE || is_of_call
}

/// `prevResult.facts`.
fn of_delegates(config: &NetworkConfig) -> Result<BTreeMap<String, Option<String>>, Error> {
    let path = format!("prevResult.{KEY}");
    let prev_result = config.section("prevResult")?.unwrap_or_default();
    let found: Option<BTreeMap<String, Option<String>>> = prev_result.read("prevResult", KEY)?;
    let found = found.unwrap_or_default();
    let is_family = |name: &str| name.split_once(':').is_some_and(|(_, key)| key == ALL);
    let is_wrong = |(name, fact): &(&String, &Option<String>)| is_family(name) && fact.is_some();
    match found.iter().find(is_wrong) {
        Some((name, _)) => Err(Error::config(format!(
            "{path}.{name}: only null is possible, which says that all facts of the family are here"
        ))),
        None => Ok(found),
    }
}

/// Keys and values of `args.cni.labels` (CNI's `CONVENTIONS.md`).
fn labels(config: &NetworkConfig) -> Result<Vec<(String, String)>, Error> {
    let args = config.section("args")?.unwrap_or_default();
    let cni = args.section("args", "cni")?.unwrap_or_default();
    let labels: Option<Vec<Object>> = cni.read("args.cni", "labels")?;
    let read = |(i, label): (usize, Object)| {
        let path = format!("args.cni.labels[{i}]");
        Ok((
            label.required(&path, "key")?,
            label.required(&path, "value")?,
        ))
    };
    labels.into_iter().flatten().enumerate().map(read).collect()
}

fn annotations(config: &NetworkConfig) -> Result<BTreeMap<String, String>, Error> {
    let runtime = config.section("runtimeConfig")?.unwrap_or_default();
    let annotations = runtime.read("runtimeConfig", ANNOTATIONS)?;
    Ok(annotations.unwrap_or_default())
}

/// Facts by name, without a call.
impl<'a> FromIterator<(&'a str, &'a str)> for Facts {
    fn from_iter<T: IntoIterator<Item = (&'a str, &'a str)>>(facts: T) -> Self {
        let owned = |(name, fact): (&str, &str)| (name.to_owned(), fact.to_owned());
        Self(facts.into_iter().map(owned).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cni::{Environment, NetworkConfig};

    fn facts(args: &str, keys: &str) -> Result<String, String> {
        let environment = Environment::default()
            .with("CNI_CONTAINERID", "c1")
            .with("CNI_IFNAME", "eth0")
            .with("CNI_ARGS", args);
        let json = format!(r#"{{"cniVersion":"1.0.0","name":"net","ipam":{{"node":"n1"}}{keys}}}"#);
        let config = NetworkConfig::parse(json.into_bytes()).unwrap();
        let facts = Facts::of(&Call::new(config, &environment));
        facts
            .map(|facts| facts.to_string())
            .map_err(|error| error.msg)
    }

    #[test]
    fn facts_come_from_the_arguments_the_labels_the_annotations_and_the_call() {
        assert_eq!(
            facts(
                "K8S_POD_NAME=db-0",
                r#","args":{"cni":{"labels":[{"key":"app","value":"my\napp"}]}},
                   "runtimeConfig":{"io.kubernetes.cri.pod-annotations":{"ipam/pool":"web"}}"#
            )
            .as_deref(),
            Ok(concat!(
                r#"K8S_POD_NAME="db-0", annotation:ipam/pool="web", containerID="c1", "#,
                r#"ifname="eth0", label:app="my\napp", network="net", node="n1""#
            ))
        );
    }

    #[test]
    fn an_argument_can_not_pass_for_another_kind_of_fact() {
        let spoofed = "annotation:a=x;containerID=x;ifname=x;network=x;node=x;:=x;A=1";
        let expected = r#"A="1", containerID="c1", ifname="eth0", network="net", node="n1""#;
        assert_eq!(facts(spoofed, "").as_deref(), Ok(expected));
    }

    #[test]
    fn facts_that_are_no_texts_are_refused_by_key() {
        for (keys, message) in [
            (
                r#","args":{"cni":{"labels":[{"key":"app","value":7}]}}"#,
                "args.cni.labels[0].value: invalid type: integer `7`, expected a string",
            ),
            (
                r#","runtimeConfig":{"io.kubernetes.cri.pod-annotations":{"a":[]}}"#,
                "runtimeConfig.io.kubernetes.cri.pod-annotations.a: invalid type: sequence, expected a string",
            ),
        ] {
            assert_eq!(facts("", keys).unwrap_err(), message);
        }
        assert!(facts("A", "").unwrap_err().starts_with("CNI_ARGS: \"A\""));
    }

    const LABELLED: &str =
        r#","args":{"cni":{"labels":[{"key":"app","value":"mine"},{"key":"tier","value":"x"}]}}"#;

    /// All but those of the call.
    fn with_found(found: &str) -> Result<String, String> {
        let found = format!(r#"{LABELLED},"prevResult":{{"facts":{found}}}"#);
        let facts = facts("A=1;B=2;node=n9", &found)?;
        let of_call = r#"containerID="c1", ifname="eth0", "#;
        Ok(facts.replacen(of_call, "", 1))
    }

    #[test]
    fn what_delegates_have_found_wins_over_what_the_runtime_says() {
        let rest = r#"network="net", node="n1""#;
        for (found, expected) in [
            ("null", r#"A="1", B="2", label:app="mine", label:tier="x""#),
            (
                r#"{"B":"3","label:app":"shop"}"#,
                r#"A="1", B="3", label:app="shop", label:tier="x""#,
            ),
            (
                r#"{"A":null,"label:tier":null}"#,
                r#"B="2", label:app="mine""#,
            ),
            (r#"{"label:*":null}"#, r#"A="1", B="2""#),
            (
                r#"{"label:*":null,"label:app":"shop"}"#,
                r#"A="1", B="2", label:app="shop""#,
            ),
        ] {
            let expected = format!("{expected}, {rest}");
            assert_eq!(with_found(found), Ok(expected), "{found}");
        }
        let named = with_found(r#"{"node":"worker-1","node-label:rack":"r7"}"#).unwrap();
        assert!(
            named.ends_with(r#"node="worker-1", node-label:rack="r7""#),
            "{named}"
        );
    }

    #[test]
    fn found_facts_that_are_no_texts_are_refused_by_key() {
        for (found, message) in [
            (
                "7",
                "prevResult.facts: invalid type: integer `7`, expected a map",
            ),
            (
                r#"{"rack":7}"#,
                "prevResult.facts.rack: invalid type: integer `7`, expected a string",
            ),
            (
                r#"{"label:*":"x"}"#,
                "prevResult.facts.label:*: only null is possible, which says that all facts of the family are here",
            ),
        ] {
            assert_eq!(with_found(found).unwrap_err(), message);
        }
    }

    #[test]
    fn a_facts_delegate_keeps_what_is_there() {
        let json = r#"{"cniVersion":"1.0.0","name":"net","prevResult":{"ips":[],"facts":{"a":"1","b":"2"},"x":1.50}}"#;
        let config = NetworkConfig::parse(json.as_bytes().to_vec()).unwrap();
        let more = [
            ("b".to_owned(), Some("3".to_owned())),
            ("label:*".to_owned(), None),
        ];
        let result = Facts::append(&config, more).unwrap();
        let facts = result.other("facts").map(|facts| facts.get());
        assert_eq!(facts, Some(r#"{"a":"1","b":"3","label:*":null}"#));
        assert_eq!(result.other("x").map(|x| x.get()), Some("1.50"));
    }
}

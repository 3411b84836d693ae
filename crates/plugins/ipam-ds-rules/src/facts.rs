//! Facts of a container: `CNI_ARGS`, labels, annotations, and the parameters of the call.

use std::collections::BTreeMap;
use std::fmt;

use cni::{Call, Error, Excerpt, Object};
use serde::Deserialize;

/// The key of `runtimeConfig` in which containerd and CRI-O pass a pod's annotations.
pub const ANNOTATIONS: &str = "io.kubernetes.cri.pod-annotations";

/// The variables of a call that are facts, and the names of these facts.
const OF_CALL: [(&str, &str); 2] = [("containerID", "CNI_CONTAINERID"), ("ifname", "CNI_IFNAME")];

/// The name of the fact that is the network's name.
const NETWORK: &str = "network";

/// Most facts that a message lists.
const MOST_SHOWN: usize = 50;

/// The facts of a call, by name.
#[derive(Clone, Debug, Default)]
pub struct Facts(BTreeMap<String, String>);

impl Facts {
    /// The facts of a call: `KEY` for each key of `CNI_ARGS`, `label:KEY` for each of
    /// `args.cni.labels`, `annotation:KEY` for each pod annotation in `runtimeConfig`, and
    /// `containerID`, `ifname` and `network`.
    ///
    /// # Errors
    ///
    /// Code 4 for a malformed `CNI_ARGS`; code 7 for labels and annotations that aren't
    /// texts. Both name the key.
    pub fn of(call: &Call<'_>) -> Result<Self, Error> {
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
        Ok(all)
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
    key.contains(':') || key == NETWORK || OF_CALL.iter().any(|(name, _)| *name == key)
}

/// The name of a fact.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct FactName(String);

impl FactName {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for FactName {
    /// The reason why no fact can have this name.
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        match name.split_once(':') {
            None if name.is_empty() => Err("the name of a fact is empty".to_owned()),
            None => Ok(Self(name)),
            Some(("label" | "annotation", key)) if !key.is_empty() => Ok(Self(name)),
            Some(_) => Err(format!(
                "{name:?} is no fact: there are keys of CNI_ARGS, label:KEY, annotation:KEY, \
                 containerID, ifname and network"
            )),
        }
    }
}

/// Keys and values of `args.cni.labels` (CNI's `CONVENTIONS.md`).
fn labels(config: &cni::NetworkConfig) -> Result<Vec<(String, String)>, Error> {
    let args = config.section("args")?;
    let cni = args.map_or(Ok(None), |args| args.section("args", "cni"))?;
    let labels: Option<Vec<Object>> = cni.map_or(Ok(None), |cni| cni.read("args.cni", "labels"))?;
    let read = |(i, label): (usize, Object)| {
        let path = format!("args.cni.labels[{i}]");
        Ok((
            label.required(&path, "key")?,
            label.required(&path, "value")?,
        ))
    };
    labels.into_iter().flatten().enumerate().map(read).collect()
}

fn annotations(config: &cni::NetworkConfig) -> Result<BTreeMap<String, String>, Error> {
    let runtime = config.section("runtimeConfig")?;
    let annotations = runtime.map_or(Ok(None), |runtime| {
        runtime.read("runtimeConfig", ANNOTATIONS)
    })?;
    Ok(annotations.unwrap_or_default())
}

#[cfg(test)]
impl<'a> FromIterator<(&'a str, &'a str)> for Facts {
    fn from_iter<T: IntoIterator<Item = (&'a str, &'a str)>>(facts: T) -> Self {
        let mut all = Self::default();
        facts
            .into_iter()
            .for_each(|(name, fact)| all.insert(name, fact));
        all
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
        let json = format!(r#"{{"cniVersion":"1.0.0","name":"net"{keys}}}"#);
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
                r#"ifname="eth0", label:app="my\napp", network="net""#
            ))
        );
    }

    #[test]
    fn an_argument_can_not_pass_for_another_kind_of_fact() {
        let spoofed = "annotation:a=x;containerID=x;ifname=x;network=x;:=x;A=1";
        let expected = r#"A="1", containerID="c1", ifname="eth0", network="net""#;
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

    #[test]
    fn only_names_that_a_fact_can_have_are_accepted() {
        for name in [
            "K8S_POD_NAME",
            "label:app",
            "annotation:a/b:c",
            "annotation",
        ] {
            assert!(FactName::try_from(name.to_owned()).is_ok(), "{name}");
        }
        for name in ["", "labels:app", "label:", ":x"] {
            assert!(FactName::try_from(name.to_owned()).is_err(), "{name}");
        }
    }
}

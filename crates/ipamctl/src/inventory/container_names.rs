//! The names by which a person knows a container: pod or job, by its `CNI_ARGS`; Docker's name.

use std::borrow::Cow;
use std::collections::BTreeMap;

use chain::record::AttachmentRecord;
use cni::Args;
use docker_records::records::{CallerLine, Purpose};
use serde::{Serialize, Serializer};

use crate::output::joined;

/// Number of shown characters of a container ID, as in the runtimes' commands.
const SHORT_ID_LENGTH: usize = 12;

/// The keys of a pod.
const POD_KEYS: [&str; 2] = ["K8S_POD_NAMESPACE", "K8S_POD_NAME"];

/// The key of Docker's names.
const DOCKER_NAME_KEY: &str = "DOCKER_NAME";

/// The keys of a short name: Kubernetes' and podman's, Nomad's, Docker's.
const SHORT_NAME_KEYS: [&[&str]; 3] = [
    &POD_KEYS,
    &["NOMAD_JOB_ID", "NOMAD_GROUP_NAME"],
    &[DOCKER_NAME_KEY],
];

/// The names of a container, by their keys in ascending order. A long list has many of them, and a map
/// would be ten times as large.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ContainerNames(Box<[(Cow<'static, str>, Box<str>)]>);

impl Serialize for ContainerNames {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.pairs())
    }
}

impl ContainerNames {
    /// The names of a record's container: of Docker's addresses, those of the daemon's line.
    pub(crate) fn of(record: &AttachmentRecord) -> Self {
        let name = match CallerLine::of(record) {
            None => return Self::of_args(&record.args),
            Some(CallerLine::Endpoint(_)) => None,
            Some(CallerLine::Address(line)) => match line.purpose {
                Purpose::Container => line.name,
                Purpose::Gateway => Some("gateway".to_owned()),
                Purpose::Subnet => Some("subnet".to_owned()),
            },
        };
        Self::of_pairs(name.iter().map(|name| (DOCKER_NAME_KEY, name.as_str())))
    }

    /// Reads `CNI_ARGS`; empty if it is invalid.
    fn of_args(args: &str) -> Self {
        let args = Args::parse(args).unwrap_or_default();
        Self::of_pairs(args.names())
    }

    /// The names of a pod.
    pub(crate) fn of_pod(namespace: Option<&str>, pod: Option<&str>) -> Self {
        let pairs = POD_KEYS.into_iter().zip([namespace, pod]);
        Self::of_pairs(pairs.filter_map(|(key, value)| Some((key, value?))))
    }

    /// The pairs whose values aren't empty.
    fn of_pairs<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let named: BTreeMap<&str, &str> = pairs.filter(|(_, value)| !value.is_empty()).collect();
        let owned = |key: &str| match POD_KEYS.into_iter().find(|known| *known == key) {
            Some(known) => Cow::Borrowed(known),
            None => Cow::Owned(key.to_owned()),
        };
        let pairs = named.into_iter();
        let owned_pairs = pairs.map(|(key, value)| (owned(key), value.into()));
        Self(owned_pairs.collect())
    }

    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }

    fn get(&self, key: &str) -> Option<&str> {
        self.pairs()
            .find_map(|(known, value)| (known == key).then_some(value))
    }

    /// The name in short: `default/web-1`, `shop/frontend`; empty if there is none.
    pub(crate) fn short(&self) -> String {
        let name = |keys: &&[&str]| joined(keys.iter().filter_map(|key| self.get(key)), "/");
        let mut names = SHORT_NAME_KEYS.iter().map(name);
        names.find(|name| !name.is_empty()).unwrap_or_default()
    }
}

/// The first characters of a container ID, for people.
pub(crate) fn short_id(container: &str) -> &str {
    container.get(..SHORT_ID_LENGTH).unwrap_or(container)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_and_a_job_are_named_in_short() {
        for (args, name) in [
            (
                "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=web-1;K8S_POD_INFRA_CONTAINER_ID=8f",
                "default/web-1",
            ),
            ("K8S_POD_NAMESPACE=db;K8S_POD_NAME=db", "db/db"),
            (
                "NOMAD_JOB_ID=shop;NOMAD_GROUP_NAME=frontend",
                "shop/frontend",
            ),
            ("K8S_POD_NAME=web", "web"),
            ("TEAM=blue;IP=10.0.0.9", ""),
            ("", ""),
            ("no pair", ""),
        ] {
            assert_eq!(ContainerNames::of_args(args).short(), name, "{args}");
        }
    }
}

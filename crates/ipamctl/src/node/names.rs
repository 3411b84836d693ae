//! Names of a container: pod, job, in `CNI_ARGS`; Docker's network and container.

use std::collections::BTreeMap;

use cni::Args;

/// Keys that name nothing.
const NO_NAMES: [&str; 4] = ["IgnoreUnknown", "IP", "MAC", "K8S_POD_INFRA_CONTAINER_ID"];

/// The keys of Docker's names.
const DOCKER: (&str, &str) = ("DOCKER_NETWORK", "DOCKER_CONTAINER");

/// Pairs of keys, of which the second is named within the first: Docker's, Kubernetes' and
/// podman's, Nomad's.
const SHOWN: [(&str, &str); 3] = [
    DOCKER,
    ("K8S_POD_NAMESPACE", "K8S_POD_NAME"),
    ("NOMAD_JOB_ID", "NOMAD_GROUP_NAME"),
];

/// The names of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names(BTreeMap<String, String>);

impl Names {
    /// Reads `CNI_ARGS`; text that is none names nothing.
    pub(crate) fn of(args: &str) -> Self {
        let args = Args::parse(args).unwrap_or_default();
        let pairs = args
            .iter()
            .filter(|(key, value)| !value.is_empty() && !NO_NAMES.contains(key));
        Self(
            pairs
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect(),
        )
    }

    /// The names of a network and a container of Docker's; an empty one is none.
    pub(crate) fn of_docker(network: &str, container: &str) -> Self {
        let pairs = [(DOCKER.0, network), (DOCKER.1, container)];
        let pairs = pairs.into_iter().filter(|(_, name)| !name.is_empty());
        Self(
            pairs
                .map(|(key, name)| (key.to_owned(), name.to_owned()))
                .collect(),
        )
    }

    /// These names, and those of another source, which take precedence.
    #[must_use]
    pub(crate) fn and(mut self, others: &Self) -> Self {
        let others = others
            .0
            .iter()
            .map(|(key, value)| (key.clone(), value.clone()));
        self.0.extend(others);
        self
    }

    /// All pairs.
    pub(crate) fn pairs(&self) -> &BTreeMap<String, String> {
        &self.0
    }

    /// The name in short: `default/web-1`, `shop/frontend`; empty if there is none.
    pub(crate) fn short(&self) -> String {
        let get = |key: &str| self.0.get(key).map(String::as_str);
        for (outer, inner) in SHOWN {
            match (get(outer), get(inner)) {
                (Some(outer), Some(inner)) => return format!("{outer}/{inner}"),
                (None, Some(name)) | (Some(name), None) => return name.to_owned(),
                (None, None) => {}
            }
        }
        let mut pairs = self.0.iter();
        pairs
            .next()
            .map_or_else(String::new, |(key, value)| format!("{key}={value}"))
    }
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
            ("TEAM=blue;IP=10.0.0.9", "TEAM=blue"),
            ("", ""),
            ("no pair", ""),
        ] {
            assert_eq!(Names::of(args).short(), name, "{args}");
        }
    }
}

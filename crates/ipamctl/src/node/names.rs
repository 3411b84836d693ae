//! Names of a container: pod, job, in `CNI_ARGS`; Docker's network and container.

use std::collections::BTreeMap;

use cni::Args;
use serde::Serialize;

/// Number of shown characters of a container ID, as in the runtimes' commands.
const SHORT: usize = 12;

/// Keys that aren't names.
const NO_NAMES: [&str; 4] = ["IgnoreUnknown", "IP", "MAC", "K8S_POD_INFRA_CONTAINER_ID"];

/// The keys of Docker's names.
const DOCKER: (&str, &str) = ("DOCKER_NETWORK", "DOCKER_CONTAINER");

/// Pairs of keys, an outer and an inner name: Docker's, Kubernetes' and podman's, Nomad's.
const SHOWN: [(&str, &str); 3] = [
    DOCKER,
    ("K8S_POD_NAMESPACE", "K8S_POD_NAME"),
    ("NOMAD_JOB_ID", "NOMAD_GROUP_NAME"),
];

/// The names of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Names(BTreeMap<String, String>);

impl Names {
    /// Reads `CNI_ARGS`; empty if it is invalid.
    pub(crate) fn of(args: &str) -> Self {
        let args = Args::parse(args).unwrap_or_default();
        Self::of_pairs(args.iter().filter(|(key, _)| !NO_NAMES.contains(key)))
    }

    /// Docker's names of a network and a container.
    pub(crate) fn of_docker(network: &str, container: &str) -> Self {
        Self::of_pairs([(DOCKER.0, network), (DOCKER.1, container)].into_iter())
    }

    /// The pairs whose values aren't empty.
    fn of_pairs<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let named = pairs.filter(|(_, value)| !value.is_empty());
        let named = named.map(|(key, value)| (key.into(), value.into()));
        Self(named.collect())
    }

    /// These names, and those of another source, which take precedence.
    #[must_use]
    pub(crate) fn and(mut self, others: &Self) -> Self {
        self.0.extend(others.0.clone());
        self
    }

    /// All pairs.
    pub(crate) fn pairs(&self) -> &BTreeMap<String, String> {
        &self.0
    }

    /// The name in short: `default/web-1`, `shop/frontend`; empty if there is none.
    pub(crate) fn short(&self) -> String {
        for (outer, inner) in SHOWN {
            match (self.0.get(outer), self.0.get(inner)) {
                (Some(outer), Some(inner)) => return format!("{outer}/{inner}"),
                (None, Some(name)) | (Some(name), None) => return name.clone(),
                (None, None) => {}
            }
        }
        let first = self.0.iter().next();
        first.map_or_else(String::new, |(key, value)| format!("{key}={value}"))
    }
}

/// The first characters of a container ID, for people.
pub(crate) fn short_id(container: &str) -> &str {
    container.get(..SHORT).unwrap_or(container)
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

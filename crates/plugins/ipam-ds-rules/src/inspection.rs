//! Reads the catalogue for tools: all pools, those of one file, and owners that many have in common.

use std::collections::BTreeMap;

use cni::{Error, NetworkConfig, Object};
use ipam::PoolName;

use crate::catalogue::Catalogue;
use crate::source::Source;

/// All pools of the catalogue as entries of `pools`, in the order of their names.
///
/// # Errors
///
/// As the plugin: an invalid catalogue, naming file, rule and key.
pub fn pools(config: &NetworkConfig) -> Result<Vec<Object>, Error> {
    Catalogue::of(config)?.pools.entries()
}

/// The names of rules whose `owner` has no fact that differs between workloads: all containers of a
/// namespace, a node or a network would have one address.
///
/// # Errors
///
/// As the plugin: an invalid catalogue, naming file, rule and key.
pub fn shared_owners(config: &NetworkConfig) -> Result<Vec<String>, Error> {
    let is_common = |fact: &str| {
        let common = [
            "K8S_POD_NAMESPACE",
            "NOMAD_NAMESPACE",
            "network",
            "ifname",
            "node",
        ];
        let families = ["namespace-label:", "node-label:"];
        common.contains(&fact) || families.iter().any(|family| fact.starts_with(family))
    };
    let catalogue = Catalogue::of(config)?;
    let shared = catalogue.rules.iter().filter(|rule| {
        let mut owner = rule.owner.iter();
        owner.any(|owner| owner.facts().all(is_common))
    });
    Ok(shared.map(|rule| rule.path.clone()).collect())
}

/// The pools of a catalogue's file with this path and content, as they are written, by their names.
///
/// # Errors
///
/// As the plugin, naming file and key; a pool without ranges.
pub fn pools_of_file(path: &str, content: &[u8]) -> Result<BTreeMap<PoolName, Object>, Error> {
    let catalogue = Catalogue::read(vec![Source::of_file(path, content)?], None)?;
    let pools = catalogue.pools.pools.iter();
    pools
        .map(|pool| match pool.ranges {
            Some(_) => Ok((pool.name.clone(), pool.written.clone())),
            None => Err(Error::config(format!("{} has no ranges", pool.path))),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_without_a_fact_of_a_workload_is_shared() {
        let rule = |owner: &str| {
            format!(r#"{{"when":{{"A":"{owner}"}},"pools":["p"],"owner":"{owner}"}}"#)
        };
        let rules = [
            "vm",
            "${K8S_POD_NAMESPACE}/${node-label:rack}",
            "${K8S_POD_NAMESPACE}/${K8S_POD_NAME}",
        ];
        let rules = rules.map(rule).join(",");
        let json = format!(
            r#"{{"cniVersion":"1.0.0","name":"net","ipam":{{"pools":{{"p":{{}}}},"rules":[{rules}]}}}}"#
        );
        let config = NetworkConfig::parse(json.into_bytes()).unwrap();
        assert_eq!(
            shared_owners(&config).unwrap(),
            ["ipam.rules[0]", "ipam.rules[1]"]
        );
    }

    fn config(rules: &str) -> NetworkConfig {
        let pools = r#"{"web":{"subnet":"10.0.0.0/24"},"db":{}}"#;
        let ipam = format!(r#"{{"pools":{pools},"rules":[{rules}]}}"#);
        let json = format!(r#"{{"cniVersion":"1.0.0","name":"net","ipam":{ipam}}}"#);
        NetworkConfig::parse(json.into_bytes()).unwrap()
    }

    #[test]
    fn all_pools_are_listed_by_the_order_of_their_names() {
        let pools = pools(&config("")).unwrap();
        assert_eq!(
            serde_json::to_string(&pools).unwrap(),
            r#"[{"name":"db"},{"name":"web","subnet":"10.0.0.0/24"}]"#
        );
    }
}

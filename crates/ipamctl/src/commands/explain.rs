//! `ipamctl explain`: the rule that decides for a container, and its pools, as the network's selectors
//! choose them on ADD. Nothing is reserved, and nothing is executed.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use cni::{Command, Environment, Error, NetworkConfig, Object};
use conflist::Listing;
use serde_json::json;

use crate::Context;
use crate::arguments::ExplainArguments;
use crate::local_node::LocalNode;
use crate::network::{Network, with_keys};

pub(crate) fn run(arguments: &ExplainArguments, context: &Context<'_>) -> Result<bool> {
    let mut found = Listing::default();
    found.add(&arguments.file);
    let node = context.node_with(found);
    if let Some(problem) = node.problems.first() {
        bail!("{problem}");
    }
    let first = node.networks.first();
    let file = arguments.file.display();
    let other = || format!("{file}: neither ipam-delegated nor host-local gives its addresses");
    let network = first.with_context(other)?;
    let (environment, config) = add_request(network, &node, &arguments.facts)?;
    let chosen = network.selected(Command::Add, &config, &environment);
    let chosen = chosen.map_err(|error| anyhow!("an ADD would be refused: {}", error.msg))?;
    let name = &network.name;
    ensure!(
        !chosen.is_empty(),
        "only its delegates know the pools of {name}"
    );
    let pools: Vec<Object> = chosen.into_iter().flatten().flatten().collect();
    // A selector with rules says which one has chosen the pool.
    let rule = pools.iter().find_map(|pool| pool.get("rule"));
    let rule: Option<String> = rule.map(|rule| cni::read("rule", rule)).transpose()?;
    // The keys are documented, and don't change their meaning.
    let explanation = json!({"network": network.name, "rule": rule, "pools": pools});
    context.print(&explanation, || {
        let mut lines = vec![format!("network  {}", network.name)];
        lines.extend(rule.iter().map(|rule| format!("rule     {rule}")));
        let pools = explanation["pools"].as_array().into_iter().flatten();
        lines.extend(pools.map(|pool| format!("pool     {pool}")));
        lines
    })?;
    Ok(false)
}

/// The environment and the configuration of an ADD with these facts.
fn add_request(
    network: &Network,
    node: &LocalNode,
    facts: &[(String, String)],
) -> Result<(Environment, NetworkConfig), Error> {
    let (mut container, mut ifname) = ("ipamctl-explain", "eth0");
    let mut args = "IgnoreUnknown=1".to_owned();
    // `CNI_ARGS` can't have these.
    let mut found = BTreeMap::new();
    for (key, value) in facts {
        match key.as_str() {
            "containerID" => container = value,
            "ifname" => ifname = value,
            of_family if of_family == "node" || of_family.contains(':') => {
                found.insert(of_family, value);
            }
            _ => args += &format!(";{key}={value}"),
        }
    }
    let own = node.environment.clone();
    let environment = own
        .with("CNI_COMMAND", "ADD")
        .with("CNI_CONTAINERID", container)
        .with("CNI_IFNAME", ifname)
        .with("CNI_NETNS", "/run/netns/ipamctl-explain")
        .with("CNI_ARGS", args);
    let config = with_keys(&network.config, |config, _| {
        config.set("prevResult", &json!({"facts": found}));
    })?;
    Ok((environment, config))
}

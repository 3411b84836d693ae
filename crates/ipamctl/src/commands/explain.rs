//! `ipamctl explain`: the rule that decides for a container, and its pools. Nothing is reserved, no
//! plugin runs.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, anyhow, bail};
use cni::{Call, Environment, Error, NetworkConfig};
use conflist::Found;
use serde_json::json;

use crate::Context;
use crate::arguments::ExplainArguments;
use crate::network::{HOST_LOCAL, Network, RANGES, RULES, with_keys};
use crate::node::Node;

pub(crate) fn run(arguments: &ExplainArguments, context: &Context<'_>) -> Result<bool> {
    let mut found = Found::default();
    found.add(&arguments.file);
    let node = Node::with(found, context.places, context.environment);
    if let Some(problem) = node.problems.first() {
        bail!("{problem}");
    }
    let first = node.networks.first();
    let file = arguments.file.display();
    let other = || format!("{file}: neither ipam-delegated nor host-local gives its addresses");
    let network = first.with_context(other)?;
    let (environment, config) = add_of(network, &node, &arguments.facts)?;
    let call = Call::new(config, &environment);
    let refused = |error: Error| anyhow!("an ADD would be refused: {}", error.msg);
    let (rule, pools) = if network.has_delegate(RULES) {
        let chosen = ipam_ds_rules::explain(&call).map_err(refused)?;
        (Some(chosen.rule), chosen.pools)
    } else if network.has_delegate(RANGES) || network.has_delegate(HOST_LOCAL) {
        (None, ipam_ds_ranges::pools(&call).map_err(refused)?)
    } else {
        bail!("only its delegates know the pools of {}", network.name);
    };
    // The keys are documented, and don't change their meaning.
    let explanation = json!({"network": network.name, "rule": rule, "pools": pools});
    context.output.print(&explanation, || {
        let mut lines = vec![format!("network  {}", network.name)];
        lines.extend(rule.iter().map(|rule| format!("rule     {rule}")));
        let pools = explanation["pools"].as_array().into_iter().flatten();
        lines.extend(pools.map(|pool| format!("pool     {pool}")));
        lines
    })?;
    Ok(false)
}

/// The environment and the configuration of an ADD with these facts.
fn add_of(
    network: &Network,
    node: &Node,
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
    let environment = node
        .environment
        .clone()
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

//! Checks capabilities: a runtime sends some keys only to a plugin that declares them.

use cni::Object;
use conflist::{Conflist, PluginEntry};
use ipam_ds_rules::explain::ANNOTATIONS;

use crate::check::findings::{Findings, key_of};
use crate::node::Network;
use crate::node::network::{GC, HOST_LOCAL, RANGES, RULES};

/// Ranges of the runtime's.
const IP_RANGES: &str = "ipRanges";

/// Start of the names of facts that are annotations.
const ANNOTATION: &str = "annotation:";

pub(crate) fn check(conflist: &Conflist, network: &Network, findings: &mut Findings<'_>) {
    let list = &conflist.object;
    if list.get("plugins").is_some() && list.get("capabilities").is_some() {
        findings.error(
            "capabilities",
            "runtimes look for capabilities in the entry of a plugin, not beside plugins",
            "\"capabilities\" beside the \"type\" of the plugin",
        );
        return;
    }
    runtime_ranges(conflist, network, findings);
    annotations(conflist, network, findings);
}

/// True if this object of the plugin has this key, and it isn't `false`.
fn has(plugin: &PluginEntry, object: &str, key: &str) -> bool {
    let section: Option<Object> = plugin.object.read("", object).ok().flatten();
    section.is_some_and(|section| section.get(key).is_some_and(|raw| raw.get() != "false"))
}

fn declares(plugin: &PluginEntry, capability: &str) -> bool {
    has(plugin, "capabilities", capability)
}

/// True if the main plugin is sent this, or has it in its configuration.
fn is_sent(network: &Network, capability: &str) -> bool {
    declares(&network.main, capability) || has(&network.main, "runtimeConfig", capability)
}

/// The capability, as it is declared.
fn declaration(capability: &str) -> String {
    format!("\"capabilities\": {{\"{capability}\": true}} beside the \"type\" of the main plugin")
}

/// Finds a capability that only a plugin declares which gives no addresses.
fn misplaced(
    conflist: &Conflist,
    network: &Network,
    capability: &str,
    findings: &mut Findings<'_>,
) -> bool {
    if is_sent(network, capability) {
        return false;
    }
    let mut plugins = conflist.plugins.iter().enumerate();
    let other = plugins.find(|(_, plugin)| {
        (plugin.kind == GC || plugin.ipam().is_none()) && declares(plugin, capability)
    });
    let Some((i, plugin)) = other else {
        return false;
    };
    findings.error(
        &format!("plugins[{i}].capabilities.{capability}"),
        format!(
            "the runtime sends it only to {}, and {} gives the addresses",
            plugin.kind, network.main.kind
        ),
        declaration(capability),
    );
    true
}

/// A runtime sends `ipRanges` only to a plugin that declares the capability.
fn runtime_ranges(conflist: &Conflist, network: &Network, findings: &mut Findings<'_>) {
    let main = &network.main;
    let is_declared = declares(main, IP_RANGES);
    let ipam = network.ipam();
    if ipam.get("capabilities").is_some() && !is_declared {
        findings.error(
            "ipam.capabilities",
            "runtimes look for capabilities beside the plugin's type, not in ipam",
            declaration(IP_RANGES),
        );
        return;
    }
    if has(main, "runtimeConfig", IP_RANGES) && !is_declared {
        findings.error(
            "runtimeConfig.ipRanges",
            "the capability is not declared, so a runtime never sends its own ranges",
            declaration(IP_RANGES),
        );
    }
    let needs_ranges = network.has_delegate(RANGES) || network.has_delegate(HOST_LOCAL);
    if !needs_ranges || misplaced(conflist, network, IP_RANGES, findings) {
        return;
    }
    let has_ranges = ["ranges", "subnet"].iter().any(|key| {
        ipam.get(key)
            .is_some_and(|raw| !matches!(raw.get(), "null" | "[]"))
    });
    if !has_ranges && !is_sent(network, IP_RANGES) {
        findings.error(
            "ipam.ranges",
            "there is no range to give addresses from, and the runtime is not asked for one",
            format!(
                "\"ranges\": [[{{\"subnet\": \"10.1.0.0/16\"}}]], or {}",
                declaration(IP_RANGES)
            ),
        );
    }
}

/// Rules ask for annotations, and the runtime is not asked for them.
fn annotations(conflist: &Conflist, network: &Network, findings: &mut Findings<'_>) {
    if !network.has_delegate(RULES) || is_sent(network, ANNOTATIONS) {
        return;
    }
    // An invalid catalogue is found elsewhere.
    let rules = ipam_ds_rules::explain::facts_of_rules(&network.config).unwrap_or_default();
    let asking = rules.into_iter().find_map(|(rule, facts)| {
        let fact = facts
            .into_iter()
            .find(|fact| fact.starts_with(ANNOTATION))?;
        Some((rule, fact))
    });
    let Some((rule, fact)) = asking else { return };
    if misplaced(conflist, network, ANNOTATIONS, findings) {
        return;
    }
    let problem =
        format!("{rule}: {fact} is never there, since the runtime is not asked for annotations");
    findings.error(key_of(&problem), problem.clone(), declaration(ANNOTATIONS));
}

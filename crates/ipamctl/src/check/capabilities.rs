//! Checks capabilities: a runtime sends some keys only to plugins that declare them.

use cni::Object;
use conflist::PluginEntry;
use ipam_ds_rules::explain::{ANNOTATIONS, facts_of_rules};

use crate::check::conflist_check::Check;
use crate::check::findings::key_of;
use crate::node::Network;
use crate::node::network::{GC, HOST_LOCAL, RANGES, RULES};

/// The runtime's ranges.
const IP_RANGES: &str = "ipRanges";

/// Start of the names of facts that are annotations.
const ANNOTATION: &str = "annotation:";

/// True if this object of the plugin has this key, and it isn't `false`.
fn has(plugin: &PluginEntry, object: &str, key: &str) -> bool {
    let section: Option<Object> = plugin.object.read("", object).ok().flatten();
    section.is_some_and(|section| section.get(key).is_some_and(|raw| raw.get() != "false"))
}

fn declares(plugin: &PluginEntry, capability: &str) -> bool {
    has(plugin, "capabilities", capability)
}

/// True if the runtime sends this to the plugin, or the plugin has it in its configuration.
fn is_sent(plugin: &PluginEntry, capability: &str) -> bool {
    declares(plugin, capability) || has(plugin, "runtimeConfig", capability)
}

/// The declaration of a capability.
fn declaration(capability: &str) -> String {
    format!("\"capabilities\": {{\"{capability}\": true}} beside the \"type\" of the main plugin")
}

impl Check<'_> {
    pub(super) fn capabilities(&mut self, network: &Network) {
        let list = &self.one.conflist.object;
        if list.get("plugins").is_some() && list.get("capabilities").is_some() {
            let problem =
                "runtimes look for capabilities in the entry of a plugin, not beside plugins";
            let instead = "\"capabilities\" beside the \"type\" of the plugin";
            return self.findings.error("capabilities", problem, instead);
        }
        self.runtime_ranges(network);
        self.annotations(network);
    }

    /// Finds a capability that only a plugin without `ipam` declares.
    fn is_misplaced(&mut self, main: &PluginEntry, capability: &str) -> bool {
        let mut plugins = self.one.conflist.plugins.iter();
        let other = plugins.position(|plugin| {
            (plugin.kind == GC || plugin.ipam().is_none()) && declares(plugin, capability)
        });
        let Some(i) = other.filter(|_| !is_sent(main, capability)) else {
            return false;
        };
        let (kind, main) = (&self.one.conflist.plugins[i].kind, &main.kind);
        self.findings.error(
            &format!("plugins[{i}].capabilities.{capability}"),
            format!("the runtime sends it only to {kind}, and {main} gives the addresses"),
            declaration(capability),
        );
        true
    }

    /// A runtime sends `ipRanges` only to a plugin that declares the capability.
    fn runtime_ranges(&mut self, network: &Network) {
        let (main, ipam) = (&network.main, network.ipam());
        let is_declared = declares(main, IP_RANGES);
        if ipam.get("capabilities").is_some() && !is_declared {
            let problem = "runtimes look for capabilities beside the plugin's type, not in ipam";
            let instead = declaration(IP_RANGES);
            return self.findings.error("ipam.capabilities", problem, instead);
        }
        if has(main, "runtimeConfig", IP_RANGES) && !is_declared {
            let problem = "the capability is not declared, so a runtime never sends its own ranges";
            let instead = declaration(IP_RANGES);
            self.findings
                .error("runtimeConfig.ipRanges", problem, instead);
        }
        let needs_ranges = network.has_delegate(RANGES) || network.has_delegate(HOST_LOCAL);
        if !needs_ranges || self.is_misplaced(main, IP_RANGES) {
            return;
        }
        let has_ranges = ["ranges", "subnet"].iter().any(|key| {
            let value = ipam.get(key).map(|raw| raw.get());
            value.is_some_and(|value| !matches!(value, "null" | "[]"))
        });
        if !has_ranges && !is_sent(main, IP_RANGES) {
            let ranges = r#""ranges": [[{"subnet": "10.1.0.0/16"}]]"#;
            self.findings.error(
                "ipam.ranges",
                "there is no range to give addresses from, and the runtime is not asked for one",
                format!("{ranges}, or {}", declaration(IP_RANGES)),
            );
        }
    }

    /// Finds rules about annotations that the runtime doesn't send.
    fn annotations(&mut self, network: &Network) {
        if !network.has_delegate(RULES) || is_sent(&network.main, ANNOTATIONS) {
            return;
        }
        // `settings` reports an invalid catalogue.
        let rules = facts_of_rules(&network.config).unwrap_or_default();
        let asking = rules.into_iter().find_map(|(rule, facts)| {
            let mut facts = facts.into_iter();
            let fact = facts.find(|fact| fact.starts_with(ANNOTATION))?;
            Some((rule, fact))
        });
        if let Some((rule, fact)) = asking
            && !self.is_misplaced(&network.main, ANNOTATIONS)
        {
            let problem = format!(
                "{rule}: {fact} is never there, since the runtime is not asked for annotations"
            );
            let instead = declaration(ANNOTATIONS);
            self.findings.error(key_of(&problem), &problem, instead);
        }
    }
}

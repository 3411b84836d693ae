//! Checks that GC reaches the chain, and that `ipam-gc` is in the right place.

use cni::Command;
use conflist::PluginEntry;

use crate::check::conflist_check::ConflistCheck;
use crate::check::findings::Severity;
use crate::network::{IPAM_GC, Network};

/// Main plugins that answer GC and don't pass it on to IPAM: the reference plugins up to 1.9.1.
const SWALLOWS_GC: [&str; 7] = [
    "bridge",
    "ptp",
    "macvlan",
    "ipvlan",
    "vlan",
    "host-device",
    "dummy",
];

impl ConflistCheck<'_> {
    /// A main plugin that doesn't pass GC on needs `ipam-gc` after it.
    pub(super) fn check_garbage_collection(&mut self, network: &Network) {
        let (conflist, main) = (self.checked.conflist, &network.main.kind);
        // Runtimes send GC only from this version on.
        let is_sent = conflist.version >= Command::Gc.since() && !conflist.disable_gc;
        let has_gc = conflist.plugins.iter().any(|plugin| plugin.kind == IPAM_GC);
        let swallows = SWALLOWS_GC.contains(&main.as_str());
        if is_sent && swallows && !has_gc && !network.is_host_local {
            let forgotten = "forgotten attachments are not collected";
            let problem = format!("{main} answers GC and doesn't pass it on: {forgotten}");
            let instead = "{\"type\": \"ipam-gc\", \"ipam\": …} after it, with the same ipam section; \
                           or a timer with ipamctl gc";
            self.warning("plugins", problem, instead);
        }
    }

    /// `ipam-gc` has to be after the main plugin, with the same `ipam` section.
    pub(super) fn check_ipam_gc(&mut self) {
        let plugins = &self.checked.conflist.plugins;
        let network = self.checked.network.as_ref();
        let ours = network.and_then(|network| network.main.ipam_type.as_deref());
        let is_main = |plugin: &PluginEntry| {
            let kind = plugin.ipam_type.as_deref();
            plugin.kind != IPAM_GC && kind.is_some() && (ours.is_none() || kind == ours)
        };
        let main = plugins.iter().position(is_main);
        let entries = plugins.iter().enumerate();
        for (i, plugin) in entries.filter(|(_, plugin)| plugin.kind == IPAM_GC) {
            if i == 0 || main.is_some_and(|main| i < main) {
                let problem = "ipam-gc is before the main plugin: each ADD fails, as prevResult is \
                               missing";
                let (key, instead) = (format!("plugins[{i}]"), "ipam-gc after the main plugin");
                self.error(&key, problem, instead);
            }
            let Some(main) = main.map(|at| &plugins[at]) else {
                continue;
            };
            let [of_gc, of_main] = [&plugin.ipam, &main.ipam].map(serde_json::to_value);
            if of_gc.ok() != of_main.ok() {
                let kind = &main.kind;
                let elsewhere = "different sections: GC and STATUS look elsewhere";
                let problem = format!("ipam-gc and {kind} have {elsewhere}");
                let instead = format!("the ipam section of {kind}, key by key");
                let ipam = plugin.ipam.as_ref();
                let severity = ipam.map_or(Severity::Error, |_| Severity::Warning);
                self.add(severity, &format!("plugins[{i}].ipam"), problem, instead);
            }
        }
    }
}

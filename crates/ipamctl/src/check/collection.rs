//! Checks that GC reaches the chain, and that `ipam-gc` is in the right place.

use std::collections::BTreeSet;

use cni::{Command, Object};
use conflist::PluginEntry;
use serde_json::Value;

use crate::check::checked::Checked;
use crate::check::findings::Findings;
use crate::node::network::GC;

/// Main plugins that answer GC themselves and don't hand it on to IPAM: the reference
/// plugins up to 1.9.1.
const SWALLOWS_GC: [&str; 7] = [
    "bridge",
    "ptp",
    "macvlan",
    "ipvlan",
    "vlan",
    "host-device",
    "dummy",
];

pub(crate) fn check(checked: &Checked<'_>, findings: &mut Findings<'_>) {
    ipam_gc(checked, findings);
    let Some(network) = checked
        .network
        .as_ref()
        .filter(|network| !network.is_host_local)
    else {
        return;
    };
    // Before this version, no runtime sends GC.
    let is_sent = checked.conflist.version >= Command::Gc.since() && !checked.conflist.disable_gc;
    let swallows = SWALLOWS_GC.contains(&network.main.kind.as_str());
    let has_gc = checked
        .conflist
        .plugins
        .iter()
        .any(|plugin| plugin.kind == GC);
    if is_sent && swallows && !has_gc {
        findings.warning(
            "plugins",
            format!("{} answers GC and doesn't hand it on: forgotten attachments are not collected", network.main.kind),
            format!("{{\"type\": \"{GC}\", \"ipam\": …}} behind it, with the same ipam section; or a timer with ipamctl gc"),
        );
    }
}

/// `ipam-gc` has to be behind the main plugin, with the same `ipam` section.
fn ipam_gc(checked: &Checked<'_>, findings: &mut Findings<'_>) {
    let plugins = &checked.conflist.plugins;
    let ours = checked
        .network
        .as_ref()
        .and_then(|network| network.main.ipam_type());
    let is_main = |plugin: &PluginEntry| {
        let kind = plugin.ipam_type();
        plugin.kind != GC && kind.is_some() && (ours.is_none() || kind == ours)
    };
    let main = plugins.iter().position(is_main);
    for (i, plugin) in plugins.iter().enumerate() {
        if plugin.kind != GC {
            continue;
        }
        if i == 0 || main.is_some_and(|main| i < main) {
            findings.error(
                &format!("plugins[{i}]"),
                format!("{GC} is before the main plugin: each ADD fails, as prevResult is missing"),
                format!("{GC} behind the main plugin"),
            );
        }
        let Some(main) = main.map(|at| &plugins[at]) else {
            continue;
        };
        let key = format!("plugins[{i}].ipam");
        let instead = format!("the ipam section of {}, key by key", main.kind);
        match (plugin.ipam(), main.ipam()) {
            (None, _) => findings.error(
                &key,
                format!("{GC} has no ipam section: GC and STATUS fail"),
                instead,
            ),
            (Some(ipam), Some(main_ipam)) => {
                let different = different(ipam, main_ipam);
                if !different.is_empty() {
                    let keys: Vec<&str> = different.into_iter().collect();
                    findings.warning(
                        &key,
                        format!(
                            "{} of {GC} and of {} differ: GC and STATUS look elsewhere",
                            keys.join(", "),
                            main.kind
                        ),
                        instead,
                    );
                }
            }
            (Some(_), None) => {}
        }
    }
}

/// The keys whose values differ. A value `null` counts as missing.
fn different<'a>(one: &'a Object, other: &'a Object) -> BTreeSet<&'a str> {
    let value = |object: &Object, key: &str| -> Value {
        let raw = object.get(key).map(|raw| serde_json::from_str(raw.get()));
        raw.and_then(Result::ok).unwrap_or_default()
    };
    let keys = one.keys().chain(other.keys());
    keys.filter(|key| value(one, key) != value(other, key))
        .collect()
}

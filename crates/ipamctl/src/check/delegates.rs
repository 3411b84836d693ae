//! Checks plugins and delegates: installed, new enough, in an order that yields an address.

use chain::{Chain, Plugins};
use cni::Environment;

use crate::check::checked::Checked;
use crate::check::findings::{Findings, key_of};
use crate::check::host::{Host, Plugin};
use crate::node::Network;
use crate::node::network::{ALLOCATOR, CHAIN};

/// Keys of `ipam`, which are read only in this spelling.
const KEYS: [&str; 15] = [
    "delegates",
    "dataDir",
    "cacheDir",
    "stateDir",
    "ranges",
    "routes",
    "resolvConf",
    "delegateTimeout",
    "result",
    "execute",
    "reclaim",
    "pools",
    "rules",
    "poolsDir",
    "exclude",
];

pub(crate) fn check(
    checked: &Checked<'_>,
    host: &Host<'_>,
    environment: &Environment,
    findings: &mut Findings<'_>,
) {
    for (i, plugin) in checked.conflist.plugins.iter().enumerate() {
        let key = format!("plugins[{i}]");
        installed_plugin(
            &plugin.kind,
            &format!("{key}.type"),
            checked,
            host,
            findings,
        );
        if let Some(ipam) = plugin.ipam_type() {
            installed_plugin(ipam, &format!("{key}.ipam.type"), checked, host, findings);
        }
    }
    let Some(network) = checked.network.as_ref() else {
        return;
    };
    if network.is_host_local {
        return;
    }
    if let Ok(plugins) = Plugins::in_cni_path(environment)
        && let Err(error) = Chain::new(&network.config, environment, plugins)
    {
        let instead = "settings as docs/configuration.md has them";
        return findings.error(key_of(&error.msg), error.msg.as_str(), instead);
    }
    let version = checked.conflist.version;
    for (i, name) in network.delegates.iter().enumerate() {
        let key = format!("ipam.delegates[{i}]");
        if let Some(versions) = unsupported(name.as_str(), &key, checked, host, findings) {
            findings.warning(
                &key,
                format!(
                    "{name} supports {}, not the network's {version}; the chain calls it with an older version",
                    versions.join(", ")
                ),
                format!("a newer {name}, or a \"cniVersion\" that it supports"),
            );
        }
    }
    order(network, findings);
    spelling(network, findings);
}

fn installed_plugin(
    name: &str,
    key: &str,
    checked: &Checked<'_>,
    host: &Host<'_>,
    findings: &mut Findings<'_>,
) {
    let Some(versions) = unsupported(name, key, checked, host, findings) else {
        return;
    };
    if checked.conflist.unsupported_version.is_none() {
        let newest = versions.last().map_or("another", String::as_str);
        findings.error(
            key,
            format!(
                "{name} supports {}, not the network's {}",
                versions.join(", "),
                checked.conflist.version
            ),
            format!("\"cniVersion\": \"{newest}\", or a newer {name}"),
        );
    }
}

/// The versions of a plugin that doesn't support the network's. One that is missing, or that
/// doesn't answer VERSION, is a finding.
fn unsupported(
    name: &str,
    key: &str,
    checked: &Checked<'_>,
    host: &Host<'_>,
    findings: &mut Findings<'_>,
) -> Option<Vec<String>> {
    let version = checked.conflist.version;
    match (host.plugin)(name, version) {
        Plugin::Missing(reason) => findings.error(
            key,
            format!("{name}: {reason}"),
            "the name of an executable in one of these folders",
        ),
        Plugin::Failing(reason) => findings.error(key, reason, "a plugin that answers VERSION"),
        Plugin::Versions(versions) if !versions.iter().any(|known| known == version.as_str()) => {
            return Some(versions);
        }
        Plugin::Versions(_) | Plugin::Present => {}
    }
    None
}

/// Selectors have to be before the allocator, and an allocator last.
fn order(network: &Network, findings: &mut Findings<'_>) {
    let names = &network.delegates;
    if let Some(last) = names.last().filter(|name| name.is_selector()) {
        findings.error(
            &format!("ipam.delegates[{}]", names.len() - 1),
            format!(
                "{last} is a selector and the last one: {CHAIN} would answer without an address"
            ),
            format!("\"{ALLOCATOR}\" behind it"),
        );
    }
    if names.first().is_some_and(|name| name.as_str() == ALLOCATOR) {
        findings.error(
            "ipam.delegates[0]",
            format!("{ALLOCATOR} is the first one: nothing says its pools"),
            "\"ipam-ds-ranges\", or another selector, before it",
        );
    }
}

fn spelling(network: &Network, findings: &mut Findings<'_>) {
    for key in network.ipam().keys() {
        let mut keys = KEYS.iter();
        let meant = keys.find(|meant| **meant != key && meant.eq_ignore_ascii_case(key));
        if let Some(meant) = meant {
            findings.error(
                &format!("ipam.{key}"),
                "no plugin of the chain reads this spelling",
                format!("\"{meant}\""),
            );
        }
    }
}

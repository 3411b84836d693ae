//! Plugins and delegates: installed, new enough, in an order that yields an address.

use chain::{Chain, Plugins};
use cni::Environment;

use crate::check::host::{Host, Plugin};
use crate::check::{Checked, Findings};
use crate::node::network::{ALLOCATOR, CHAIN};

/// Keys of `ipam`, which are read in this spelling alone.
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
    it: &Checked<'_>,
    host: &Host<'_>,
    environment: &Environment,
    findings: &mut Findings<'_>,
) {
    let version = it.conflist.version;
    for (i, plugin) in it.conflist.plugins.iter().enumerate() {
        let key = format!("plugins[{i}].type");
        installed(&plugin.kind, &key, it, host, findings);
        if let Some(ipam) = plugin.ipam_type() {
            let key = format!("plugins[{i}].ipam.type");
            installed(ipam, &key, it, host, findings);
        }
    }
    let Some(network) = it.network.as_ref().filter(|it| !it.is_host_local) else {
        return;
    };
    if let Ok(plugins) = Plugins::in_cni_path(environment)
        && let Err(error) = Chain::new(&network.config, environment, plugins)
    {
        let key = super::key_of(&error.msg).to_owned();
        findings.error(
            &key,
            error.msg,
            "settings as docs/configuration.md has them",
        );
        return;
    }
    for (i, name) in network.delegates.iter().enumerate() {
        let key = format!("ipam.delegates[{i}]");
        match (host.plugin)(name.as_str(), version) {
            Plugin::Missing(reason) => findings.error(
                &key,
                format!("{name}: {reason}"),
                "the name of an executable in one of these folders",
            ),
            Plugin::Failing(reason) => {
                findings.error(&key, reason, "a plugin that answers VERSION");
            }
            Plugin::Versions(versions) if !versions.iter().any(|it| it == version.as_str()) => {
                findings.warning(
                    &key,
                    format!(
                        "{name} supports {}, not the network's {version}; the chain calls it with an older version",
                        versions.join(", ")
                    ),
                    format!("a newer {name}, or a \"cniVersion\" that it supports"),
                );
            }
            Plugin::Versions(_) | Plugin::Present => {}
        }
    }
    order(network, findings);
    for key in network.ipam().keys() {
        let meant = KEYS
            .iter()
            .find(|it| **it != key && it.eq_ignore_ascii_case(key));
        if let Some(meant) = meant {
            findings.error(
                &format!("ipam.{key}"),
                "no plugin of the chain reads this spelling",
                format!("\"{meant}\""),
            );
        }
    }
}

fn installed(
    name: &str,
    key: &str,
    it: &Checked<'_>,
    host: &Host<'_>,
    findings: &mut Findings<'_>,
) {
    let version = it.conflist.version;
    match (host.plugin)(name, version) {
        Plugin::Missing(reason) => findings.error(
            key,
            format!("{name}: {reason}"),
            "the name of an executable in one of these folders",
        ),
        Plugin::Failing(reason) => findings.error(key, reason, "a plugin that answers VERSION"),
        Plugin::Versions(versions)
            if it.conflist.unsupported_version.is_none()
                && !versions.iter().any(|it| it == version.as_str()) =>
        {
            let newest = versions.last().map_or("another", String::as_str);
            findings.error(
                key,
                format!(
                    "{name} supports {}, not the network's {version}",
                    versions.join(", ")
                ),
                format!("\"cniVersion\": \"{newest}\", or a newer {name}"),
            );
        }
        Plugin::Versions(_) | Plugin::Present => {}
    }
}

/// Selectors stand before the allocator, and an allocator stands last.
fn order(network: &crate::node::network::Network, findings: &mut Findings<'_>) {
    let names = &network.delegates;
    if let Some(last) = names.last().filter(|it| it.is_selector()) {
        findings.error(
            &format!("ipam.delegates[{}]", names.len() - 1),
            format!(
                "{last} is a selector and stands last: {CHAIN} would answer without an address"
            ),
            format!("\"{ALLOCATOR}\" behind it"),
        );
    }
    if names.first().is_some_and(|it| it.as_str() == ALLOCATOR) {
        findings.error(
            "ipam.delegates[0]",
            format!("{ALLOCATOR} stands first: nothing says its pools"),
            "\"ipam-ds-ranges\", or another selector, before it",
        );
    }
}

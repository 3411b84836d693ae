//! Checks plugins and delegates: installed, new enough, in an order that yields an address.

use chain::{Chain, Plugins};

use crate::check::conflist_check::Check;
use crate::check::findings::key_of;
use crate::check::host::Plugin;
use crate::node::Network;
use crate::node::network::{ALLOCATOR, CHAIN};

/// Keys of `ipam`. Other spellings of them aren't read.
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

impl Check<'_> {
    /// The plugins of the conflist, and their IPAM plugins.
    pub(super) fn plugins(&mut self) {
        let conflist = self.one.conflist;
        for (i, plugin) in conflist.plugins.iter().enumerate() {
            let key = format!("plugins[{i}].type");
            let ipam = plugin.ipam_type();
            let ipam = ipam.map(|ipam| (ipam, format!("plugins[{i}].ipam.type")));
            for (name, key) in [(plugin.kind.as_str(), key)].into_iter().chain(ipam) {
                if let Some(versions) = self.other_versions(name, &key)
                    && conflist.unsupported_version.is_none()
                {
                    let newest = versions.last().map_or("another", String::as_str);
                    let (versions, version) = (versions.join(", "), conflist.version);
                    self.findings.error(
                        &key,
                        format!("{name} supports {versions}, not the network's {version}"),
                        format!("\"cniVersion\": \"{newest}\", or a newer {name}"),
                    );
                }
            }
        }
    }

    /// The settings of the chain, and its delegates.
    pub(super) fn delegates(&mut self, network: &Network) {
        if network.is_host_local {
            return;
        }
        let environment = self.host.environment;
        if let Ok(plugins) = Plugins::in_cni_path(environment)
            && let Err(error) = Chain::new(&network.config, environment, plugins)
        {
            let instead = "settings as docs/configuration.md has them";
            return self.findings.error(key_of(&error.msg), &error.msg, instead);
        }
        let version = self.one.conflist.version;
        for (i, name) in network.delegates.iter().enumerate() {
            let key = format!("ipam.delegates[{i}]");
            if let Some(versions) = self.other_versions(name.as_str(), &key) {
                let versions = versions.join(", ");
                self.findings.warning(
                    &key,
                    format!("{name} supports {versions}, not the network's {version}; the chain calls it with an older version"),
                    format!("a newer {name}, or a \"cniVersion\" that it supports"),
                );
            }
        }
        self.order(network);
        self.spelling(network);
    }

    /// The versions of a plugin that doesn't support the network's version. A plugin that is missing
    /// or doesn't answer VERSION is a finding.
    fn other_versions(&mut self, name: &str, key: &str) -> Option<Vec<String>> {
        let version = self.one.conflist.version;
        match (self.host.plugin)(name, version) {
            Plugin::Missing(reason) => {
                let instead = "the name of an executable in one of these folders";
                self.findings
                    .error(key, format!("{name}: {reason}"), instead);
            }
            Plugin::Failing(reason) => {
                let instead = "a plugin that answers VERSION";
                self.findings.error(key, reason, instead);
            }
            Plugin::Versions(versions)
                if !versions.iter().any(|known| known == version.as_str()) =>
            {
                return Some(versions);
            }
            Plugin::Versions(_) | Plugin::Present => {}
        }
        None
    }

    /// Selectors have to be before the allocator, and an allocator last.
    fn order(&mut self, network: &Network) {
        let names = &network.delegates;
        if let Some(last) = names.last().filter(|name| name.is_selector()) {
            self.findings.error(
                &format!("ipam.delegates[{}]", names.len() - 1),
                format!(
                    "{last} is a selector and the last delegate: {CHAIN} would answer without an address"
                ),
                format!("\"{ALLOCATOR}\" after it"),
            );
        }
        if names.first().is_some_and(|name| name.as_str() == ALLOCATOR) {
            self.findings.error(
                "ipam.delegates[0]",
                format!("{ALLOCATOR} is the first one: no selector gives it pools"),
                "\"ipam-ds-ranges\", or another selector, before it",
            );
        }
    }

    fn spelling(&mut self, network: &Network) {
        for key in network.ipam().keys() {
            let mut keys = KEYS.iter();
            let meant = keys.find(|meant| **meant != key && meant.eq_ignore_ascii_case(key));
            if let Some(meant) = meant {
                let problem = "no plugin of the chain reads this spelling";
                let instead = format!("\"{meant}\"");
                self.findings
                    .error(&format!("ipam.{key}"), problem, instead);
            }
        }
    }
}

//! Checks plugins and delegates: installed, new enough, in an order that yields an address, with the
//! daemon that one needs.

use chain::{Chain, Plugins, SearchPath};
use cni::DelegateName;

use crate::check::conflist_check::ConflistCheck;
use crate::check::findings::{Severity, key_of};
use crate::leases::{IPAM_DA_DHCP, is_renewer_running};
use crate::network::{IPAM_DA_HOST_LOCAL, Network};

impl ConflistCheck<'_> {
    /// The plugins of the conflist, and their IPAM plugins.
    pub(super) fn check_plugins(&mut self) {
        for (i, plugin) in self.checked.conflist.plugins.iter().enumerate() {
            self.check_plugin(&plugin.kind, &format!("plugins[{i}].type"), Severity::Error);
            if let Some(ipam) = plugin.ipam_type.as_deref() {
                let key = format!("plugins[{i}].ipam.type");
                self.check_plugin(ipam, &key, Severity::Error);
                let name: Option<DelegateName> = ipam.parse().ok();
                if name.is_some_and(|name| name.allocates() || name.holds_nothing()) {
                    let problem =
                        format!("{ipam} is a delegate: no chain gives it pools, or records it");
                    let instead = format!("ipam-delegated, with \"delegates\": [\"{ipam}\"]");
                    self.warning(&key, problem, instead);
                }
            }
        }
    }

    /// The settings of the chain, and its delegates.
    pub(super) fn check_delegates(&mut self, network: &Network) {
        if network.is_host_local {
            return;
        }
        let environment = self.environment;
        if let Ok(plugins) = Plugins::in_cni_path(environment)
            && let Err(error) = Chain::new(&network.config, environment, plugins)
        {
            let instead = "settings as docs/configuration.md has them";
            return self.error(key_of(&error.msg), &error.msg, instead);
        }
        for (i, name) in network.delegates.iter().enumerate() {
            // The chain calls an older delegate with an older version.
            let key = format!("ipam.delegates[{i}]");
            self.check_plugin(name.as_str(), &key, Severity::Warning);
        }
        self.check_order(network);
    }

    /// Finds a plugin that is missing, doesn't answer VERSION, or doesn't support the network's
    /// version.
    fn check_plugin(&mut self, name: &str, key: &str, of_versions: Severity) {
        let version = self.checked.conflist.version;
        match self.versions(name) {
            Err(reason) => {
                let instead = "the name of an executable in CNI_PATH that answers VERSION";
                self.error(key, reason, instead);
            }
            Ok(known) if known.is_empty() || known.iter().any(|one| one == version.as_str()) => {}
            Ok(known) => {
                let versions = known.join(", ");
                let problem = format!("{name} supports {versions}, not the network's {version}");
                let instead = format!("one of these as \"cniVersion\", or a newer {name}");
                self.add(of_versions, key, problem, instead);
            }
        }
    }

    /// The versions that a plugin supports, none if it isn't asked; or the reason why no call can
    /// succeed.
    fn versions(&self, name: &str) -> Result<Vec<String>, String> {
        let parsed: Result<DelegateName, _> = name.parse();
        let delegate = parsed.map_err(|error| format!("{name:?}: {error}"))?;
        let missing = |msg: String| format!("{name}: {msg}");
        let read = SearchPath::from_environment(self.environment);
        let path = read.map_err(|error| missing(error.msg))?;
        let found = path.find(&delegate);
        found.map_err(|failure| missing(failure.error.msg))?;
        if self.no_exec {
            return Ok(Vec::new());
        }
        let version = self.checked.conflist.version;
        chain::versions(&delegate, version, self.environment).map_err(missing)
    }

    /// Selectors have to be before the allocator, checks behind it, and facts before the selectors
    /// that use them.
    fn check_order(&mut self, network: &Network) {
        let names = &network.delegates;
        if names.iter().all(DelegateName::holds_nothing) {
            let without = "none of them allocates: ipam-delegated would answer without an address";
            let instead = "\"ipam-da-host-local\" behind the selectors";
            self.error("ipam.delegates", without, instead);
        }
        if names.first().map(DelegateName::as_str) == Some(IPAM_DA_HOST_LOCAL) {
            let is_first = "ipam-da-host-local is the first one: no selector gives it pools";
            let instead = "\"ipam-ds-ranges\", or another selector, before it";
            self.error("ipam.delegates[0]", is_first, instead);
        }
        let last_selector = names.iter().rposition(DelegateName::selects);
        let last_allocator = names.iter().rposition(|name| !name.holds_nothing());
        for (i, name) in names.iter().enumerate() {
            let key = format!("ipam.delegates[{i}]");
            if name.checks()
                && let Some(later) = last_allocator.filter(|allocator| i < *allocator)
            {
                let later = &names[later];
                let early = format!("{name} can't check addresses of {later}, which is behind it");
                self.error(&key, early, format!("{name} behind {later}"));
            }
            if name.finds_facts() && last_selector.is_some_and(|selector| selector < i) {
                let unused = format!("no selector behind {name} uses its facts");
                self.warning(&key, unused, format!("{name} before the selectors"));
            }
        }
    }

    /// A network with leases of DHCP needs the daemon that renews them.
    pub(super) fn check_renewer(&mut self, network: &Network) {
        if !self.no_exec && network.has_delegate(IPAM_DA_DHCP) && !is_renewer_running() {
            let problem = "ipam-da-dhcp needs ipam-dhcp-renew, and no process of it is visible here: \
                           each lease ends once";
            let instead = "the unit ipam-dhcp-renew.service, or its container on Kubernetes";
            self.warning("ipam.delegates", problem, instead);
        }
    }
}

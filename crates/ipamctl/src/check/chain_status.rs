//! Runs STATUS of a network's chain, which finds what makes each ADD fail. Only root can use the folders, so
//! for another user the chain ends before the first delegate that holds something.

use chain::{Chain, Plugins};
use cni::{DelegateName, Error, SpecVersion};
use rustix::process::geteuid;

use crate::check::conflist_check::ConflistCheck;
use crate::check::findings::Severity;
use crate::network::{Network, with_keys};

/// The longest time of a delegate, unless the network has a limit.
const TIMEOUT: &str = "30s";

impl ConflistCheck<'_> {
    /// STATUS of the chain, unless an error is found already, which STATUS may find as well. Only
    /// root can use the folders: for others, only the selectors are asked.
    pub(super) fn check_status(&mut self, network: &Network) {
        let mut found = self.findings.iter();
        let is_known = found.any(|finding| finding.severity == Severity::Error);
        if network.is_host_local || self.no_exec || is_known {
            return;
        }
        let is_asked = |name: &&DelegateName| geteuid().is_root() || name.holds_nothing();
        let asked: Vec<&DelegateName> = network.delegates.iter().take_while(is_asked).collect();
        if asked.is_empty() {
            return;
        }
        if let Err(error) = self.chain_status(network, &asked) {
            let problem = format!("each ADD would fail: {}", error.msg);
            let instead = "what the message names, as docs/configuration.md has it";
            self.error("ipam.delegates", problem, instead);
        }
    }

    fn chain_status(&self, network: &Network, delegates: &[&DelegateName]) -> Result<(), Error> {
        // Older versions have no STATUS.
        let config = network.config.in_version(SpecVersion::LATEST);
        let config = with_keys(&config, |_, ipam| {
            ipam.set("delegates", delegates);
            if ipam.get("delegateTimeout").is_none() {
                ipam.set("delegateTimeout", TIMEOUT);
            }
        })?;
        let plugins = Plugins::in_cni_path(self.environment)?;
        Chain::new(&config, self.environment, plugins)?.status()
    }
}

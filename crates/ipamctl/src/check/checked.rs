//! Reads the network and the pools of a conflist, and finds what is wrong with its settings.

use cni::Environment;
use conflist::Conflist;

use crate::check::findings::{Findings, key_of};
use crate::check::rules;
use crate::node::network::CHAIN;
use crate::node::{Network, PlacedPool, Pools};

/// A conflist with the network and the pools of its configuration.
pub(crate) struct Checked<'a> {
    pub(crate) conflist: &'a Conflist,
    pub(crate) network: Option<Network>,
    pub(crate) pools: Vec<PlacedPool>,
}

impl<'a> Checked<'a> {
    pub(crate) fn read(
        conflist: &'a Conflist,
        environment: &Environment,
        findings: &mut Findings<'_>,
    ) -> Self {
        let mut checked = Self {
            conflist,
            network: None,
            pools: Vec::new(),
        };
        match Network::of(conflist, environment) {
            Err(reason) => findings.error(key_of(&reason), reason.as_str(), "a value of that kind"),
            Ok(None) => {}
            Ok(Some(network)) => {
                let mut pools = Pools::default();
                pools.add_configured(&network, environment);
                for (_, reason) in &pools.problems {
                    let instead = "ranges as docs/configuration.md has them";
                    findings.error(key_of(reason), reason.as_str(), instead);
                }
                rules::check(&network, findings);
                checked.pools = pools.all;
                checked.network = Some(network);
            }
        }
        let mut plugins = conflist.plugins.iter();
        if let Some(version) = &conflist.unsupported_version
            && plugins.any(|plugin| plugin.ipam_type() == Some(CHAIN))
        {
            findings.error(
                "cniVersion",
                format!("{version} is not supported by {CHAIN}"),
                "\"cniVersion\": \"1.0.0\"",
            );
        }
        checked
    }
}

//! The check of one conflist among all others.

use cni::Environment;
use conflist::Conflist;

use crate::check::findings::Findings;
use crate::check::host::Host;
use crate::node::{Network, Pools};

/// A conflist with the network and the pools of its configuration.
pub(super) struct Checked<'a> {
    pub(super) conflist: &'a Conflist,
    pub(super) network: Option<Network>,
    pub(super) pools: Pools,
    /// The reason why the network's configuration is unusable.
    pub(super) refusal: Option<String>,
}

impl<'a> Checked<'a> {
    pub(super) fn read(conflist: &'a Conflist, environment: &Environment) -> Self {
        let network = Network::of(conflist, environment);
        let refusal = network.as_ref().err().cloned();
        let network = network.unwrap_or_default();
        let mut pools = Pools::default();
        if let Some(network) = &network {
            pools.add_configured(network, environment);
        }
        Self {
            conflist,
            network,
            pools,
            refusal,
        }
    }
}

/// The check of one conflist.
pub(super) struct Check<'a> {
    /// The conflist's index.
    pub(super) at: usize,
    /// All conflists.
    pub(super) all: &'a [Checked<'a>],
    pub(super) one: &'a Checked<'a>,
    pub(super) host: &'a Host<'a>,
    pub(super) findings: Findings<'a>,
}

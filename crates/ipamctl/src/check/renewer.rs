//! Checks that the leases of a network are renewed.

use crate::check::conflist_check::Check;
use crate::leases::{DHCP, RENEWER, renewer_runs};
use crate::network::Network;

impl Check<'_> {
    /// A network with leases of DHCP needs the daemon that renews them.
    pub(super) fn renewer(&mut self, network: &Network) {
        if !self.no_exec && network.has_delegate(DHCP) && !renewer_runs() {
            let needed = format!("{DHCP} needs {RENEWER}, and no process of it is visible here");
            let instead = format!("the unit {RENEWER}.service, or its container on Kubernetes");
            self.warning("ipam.delegates", needed + ": each lease ends once", instead);
        }
    }
}

//! Checks that the leases of a network are renewed.

use crate::check::conflist_check::Check;
use crate::check::findings::Severity;
use crate::leases::{DHCP, RENEWER, renewer_runs};
use crate::network::Network;

impl Check<'_> {
    /// A network with leases of DHCP needs the daemon that renews them.
    pub(super) fn renewer(&mut self, network: &Network) {
        if !self.no_exec && network.has_delegate(DHCP) && !renewer_runs() {
            self.add(
                Severity::Warning,
                "ipam.delegates",
                format!("{DHCP} needs {RENEWER}, and no process of it is visible here: each lease ends once"),
                format!("the unit {RENEWER}.service, or its container on Kubernetes"),
            );
        }
    }
}

//! GC: whether it gets to the chain.

use cni::Command;

use crate::check::{Checked, Findings};
use crate::network::GC;

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

pub(crate) fn check(it: &Checked<'_>, findings: &mut Findings<'_>) {
    let Some(network) = it.network.as_ref().filter(|it| !it.is_host_local) else {
        return;
    };
    // Before this version, no runtime sends GC.
    let is_sent = it.conflist.version >= Command::Gc.since() && !it.conflist.disable_gc;
    let swallows = SWALLOWS_GC.contains(&network.main.kind.as_str());
    let has_gc = it.conflist.plugins.iter().any(|plugin| plugin.kind == GC);
    if is_sent && swallows && !has_gc {
        findings.warning(
            "plugins",
            format!("{} answers GC and doesn't hand it on: forgotten attachments are not collected", network.main.kind),
            format!("{{\"type\": \"{GC}\", \"ipam\": …}} behind it, with the same ipam section; or a timer with ipamctl gc"),
        );
    }
}

//! Folders of a network's state: writable, and emptied at the same time.

use crate::check::Findings;
use crate::check::host::Host;
use crate::network::Network;

/// True if only root can say whether the folders of the network can be written.
pub(crate) fn are_roots(network: &Network, host: &Host<'_>) -> bool {
    let is_roots = |path| (host.folder)(path).is_roots;
    network.keeps_files() && is_roots(&network.folders.data_dir)
        || !network.is_host_local && is_roots(&network.state_dir)
}

pub(crate) fn check(network: &Network, host: &Host<'_>, findings: &mut Findings<'_>) {
    let data_dir = (host.folder)(&network.folders.data_dir);
    let path = network.folders.data_dir.display();
    if network.keeps_files()
        && let Some(reason) = &data_dir.unwritable
    {
        findings.error(
            "ipam.dataDir",
            format!("{path} can't be written: {reason}"),
            "an absolute path on a writable file system",
        );
    }
    if network.is_host_local {
        return;
    }
    let state_dir = (host.folder)(&network.state_dir);
    let records = network.state_dir.display();
    if let Some(reason) = &state_dir.unwritable {
        findings.error(
            "ipam.stateDir",
            format!("{records} can't be written: {reason}"),
            "an absolute path on a writable file system",
        );
    }
    if !network.keeps_files() || data_dir.volatile == state_dir.volatile {
        return;
    }
    if data_dir.volatile {
        findings.warning(
            "ipam.dataDir",
            format!("a reboot empties {path}, and not the records in {records}"),
            "both on one file system: \"stateDir\" in /run, too, or \"dataDir\" in /var/lib",
        );
    } else {
        findings.warning(
            "ipam.stateDir",
            format!("a reboot empties {records}, and not the reservations in {path}"),
            "both on one file system: \"stateDir\" in /var/lib, or \"reclaim\": \"boot\"",
        );
    }
}

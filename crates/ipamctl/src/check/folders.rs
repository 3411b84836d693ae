//! Checks the folders of a network's state: writable, and emptied at the same time.

use std::path::Path;

use crate::check::findings::Findings;
use crate::check::host::{Folder, Host};
use crate::node::Network;

/// True if only root can say whether the folders of the network can be written.
pub(crate) fn are_roots(network: &Network, host: &Host<'_>) -> bool {
    let is_roots = |path| (host.folder)(path).is_roots;
    network.keeps_files() && is_roots(&network.folders.data_dir)
        || !network.is_host_local && is_roots(&network.state_dir)
}

pub(crate) fn check(network: &Network, host: &Host<'_>, findings: &mut Findings<'_>) {
    let data_dir = (host.folder)(&network.folders.data_dir);
    if network.keeps_files() {
        writable(
            "ipam.dataDir",
            &network.folders.data_dir,
            &data_dir,
            findings,
        );
    }
    if network.is_host_local {
        return;
    }
    let state_dir = (host.folder)(&network.state_dir);
    writable("ipam.stateDir", &network.state_dir, &state_dir, findings);
    if data_dir.unknown.is_some() || state_dir.unknown.is_some() {
        return;
    }
    let (path, records) = (
        network.folders.data_dir.display(),
        network.state_dir.display(),
    );
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

fn writable(key: &str, path: &Path, folder: &Folder, findings: &mut Findings<'_>) {
    let path = path.display();
    let instead = "an absolute path on a writable file system";
    if let Some(reason) = &folder.unwritable {
        findings.error(key, format!("{path} can't be written: {reason}"), instead);
    }
    if let Some(reason) = &folder.unknown {
        let problem = format!("whether {path} can be written is unknown: {reason}");
        findings.warning(key, problem, instead);
    }
}

//! Checks the folders of a network's state: writable, and emptied at the same time.

use std::path::Path;

use crate::check::conflist_check::Check;
use crate::check::host::{Folder, Host};
use crate::node::Network;

/// True if only root can test whether the folders of the network are writable.
pub(crate) fn are_roots(network: &Network, host: &Host<'_>) -> bool {
    let is_roots = |path| (host.folder)(path).is_roots;
    network.keeps_files() && is_roots(&network.folders.data_dir)
        || !network.is_host_local && is_roots(&network.state_dir)
}

impl Check<'_> {
    pub(super) fn folders(&mut self, network: &Network) {
        let (data_dir, state_dir) = (&network.folders.data_dir, &network.state_dir);
        let keeps_files = network.keeps_files();
        let data = (self.host.folder)(data_dir);
        if keeps_files {
            self.writable("ipam.dataDir", data_dir, &data);
        }
        if network.is_host_local {
            return;
        }
        let state = (self.host.folder)(state_dir);
        self.writable("ipam.stateDir", state_dir, &state);
        let is_known = data.unknown.is_none() && state.unknown.is_none();
        if !is_known || !keeps_files || data.volatile == state.volatile {
            return;
        }
        let (data_dir, state_dir) = (data_dir.display(), state_dir.display());
        if data.volatile {
            self.findings.warning(
                "ipam.dataDir",
                format!("a reboot empties {data_dir}, and not the records in {state_dir}"),
                "both on one file system: \"stateDir\" in /run, too, or \"dataDir\" in /var/lib",
            );
        } else {
            self.findings.warning(
                "ipam.stateDir",
                format!("a reboot empties {state_dir}, and not the reservations in {data_dir}"),
                "both on one file system: \"stateDir\" in /var/lib, or \"reclaim\": \"boot\"",
            );
        }
    }

    fn writable(&mut self, key: &str, path: &Path, folder: &Folder) {
        let path = path.display();
        let instead = "an absolute path on a writable file system";
        if let Some(reason) = &folder.unwritable {
            let problem = format!("{path} is not writable: {reason}");
            self.findings.error(key, problem, instead);
        }
        if let Some(reason) = &folder.unknown {
            let problem = format!("whether {path} is writable is unknown: {reason}");
            self.findings.warning(key, problem, instead);
        }
    }
}

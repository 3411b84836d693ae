//! Checks the folders of records and reservations: writable, emptied at the same time, and of one plugin
//! only, since the plugins' attachments have the same names.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{Access, access, statfs};
use rustix::process::geteuid;

use crate::check::conflist_check::ConflistCheck;
use crate::network::Network;

/// Types of file systems that a reboot empties: tmpfs and ramfs (statfs(2)).
const VOLATILE: [i64; 2] = [0x0102_1994, 0x8584_58f6];

/// What to write in the place of a folder that can't be used.
const WRITABLE: &str = "an absolute path on a writable file system";

impl ConflistCheck<'_> {
    pub(super) fn check_folders(&mut self, network: &Network) {
        let (has_data, has_state) = (network.keeps_files(), !network.is_host_local);
        let data = has_data.then_some(("ipam.dataDir", &network.data_dir));
        let state = has_state.then_some(("ipam.stateDir", &network.state_dir));
        for pool in &self.checked.pools.all {
            if let Err(reason) = state_files::is_absent(&pool.directory) {
                let problem = format!("{}: {reason}", pool.directory.display());
                self.error("ipam.dataDir", problem, WRITABLE);
            }
        }
        let (mut emptied, mut kept) = (None, None);
        for (key, path) in data.into_iter().chain(state) {
            match is_volatile(path) {
                _ if self.no_exec && is_on_root(path) => {}
                Ok(true) => emptied = Some((key, path)),
                Ok(false) => kept = Some(path),
                Err(reason) => {
                    let problem = format!("{} is not writable: {reason}", path.display());
                    self.error(key, problem, WRITABLE);
                }
            }
        }
        if let (Some((key, emptied)), Some(kept)) = (emptied, kept) {
            let (emptied, kept) = (emptied.display(), kept.display());
            let problem = format!("a reboot empties {emptied}, and not {kept}");
            let instead = "\"stateDir\" and \"dataDir\" both in /run, or both in /var/lib";
            self.warning(key, problem, instead);
        }
    }

    /// Compares the plugins with an `ipam` section of a chain with the ones before them.
    pub(super) fn check_shared_folders(&mut self) {
        let read = Network::each_of(self.checked.conflist, self.environment);
        let usable = read.filter_map(|(i, network)| Some((i, network.ok()?)));
        let plugins: Vec<(usize, Network)> = usable.collect();
        for (at, (i, network)) in plugins.iter().enumerate() {
            for (_, other) in &plugins[..at] {
                self.compare_folders(*i, network, other);
            }
        }
    }

    fn compare_folders(&mut self, i: usize, network: &Network, other: &Network) {
        let has_records = !network.is_host_local && !other.is_host_local;
        let has_chain = !network.is_host_local || !other.is_host_local;
        let keep_files = network.keeps_files() && other.keeps_files();
        let kind = &other.main.kind;
        let mut add = |name: &str, problem: String| {
            let key = format!("plugins[{i}].ipam.{name}");
            let instead = "a \"stateDir\" and a \"dataDir\" of its own for each plugin";
            self.error(&key, problem, instead);
        };
        if has_records && network.state_dir == other.state_dir {
            let path = network.state_dir.display();
            let problem = format!("{path} has the records of {kind}, too: each ADD fails with 110");
            add("stateDir", problem);
        }
        if has_chain && keep_files && network.data_dir == other.data_dir {
            let path = network.data_dir.display();
            let problem = format!(
                "{path} has the reservations of {kind}, too: a DEL of one may release the other's"
            );
            add("dataDir", problem);
        }
    }
}

/// True for a folder on the file system of `/`: in a container, it is not the machine's.
fn is_on_root(path: &Path) -> bool {
    let device = |path: &Path| path.metadata().map(|found| found.dev()).ok();
    let existing = path.ancestors().find(|path| path.exists());
    existing.and_then(device) == device(Path::new("/"))
}

/// True for a folder that a reboot empties; if it doesn't exist, by its nearest existing parent.
/// Only root is told whether it can be written.
fn is_volatile(path: &Path) -> Result<bool, String> {
    let is_there = |path: &&Path| path.symlink_metadata().is_ok();
    let found = path.ancestors().find(is_there);
    let existing = found.unwrap_or(path);
    let failed = |why: &dyn std::fmt::Display| format!("{}: {why}", existing.display());
    if !existing.is_dir() {
        return Err(failed(&"it is not a folder"));
    }
    if !geteuid().is_root() {
        return Ok(false);
    }
    access(existing, Access::WRITE_OK | Access::EXEC_OK).map_err(|error| failed(&error))?;
    let stat = statfs(existing).map_err(|error| failed(&error))?;
    // The type of the number is not the same everywhere.
    let mut kinds = VOLATILE.into_iter();
    Ok(kinds.any(|kind| i128::from(kind) == i128::from(stat.f_type)))
}

//! Docker's IPAM driver: its parts.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use ipam::IpNet;
use state_files::boot_id;

use crate::command_line::CommandLine;
use crate::ipam::chains::Chains;
use crate::ipam::live_pool::LivePool;
use crate::ipam::live_pools::LivePools;
use crate::state::attachment_id::{Names, UNKNOWN_BOOT, of_boot};
use crate::state::files::Files;
use crate::state::unread::UnreadFiles;

/// The driver.
pub(crate) struct IpamDriver {
    pub(crate) chains: Chains,
    pub(crate) files: Arc<Files>,
    /// The folder of the records of networks without a network configuration.
    pub(crate) records: PathBuf,
    /// The start of the container IDs of this boot; `None` if the boot is unknown.
    pub(crate) boot: Option<String>,
    /// Container IDs for attachments.
    pub(crate) ids: Names,
    pub(crate) arguments: CommandLine,
    /// The default pool that was given last.
    pub(crate) last_default: Mutex<Option<IpNet>>,
    pub(crate) pools: LivePools,
    /// Held while a pool is compared with the others, and added to them. No chain runs
    /// meanwhile.
    pub(crate) adding: Mutex<()>,
    /// The files and container IDs of earlier daemons that were taken in.
    pub(crate) taken: Mutex<BTreeSet<String>>,
    pub(crate) unread: UnreadFiles,
    /// Gets a message when Docker is to be asked what it has (`daemon::comparison`).
    due: SyncSender<()>,
}

impl IpamDriver {
    /// A driver that knows no pool.
    pub(crate) fn new(
        arguments: &CommandLine,
        files: Arc<Files>,
        due: SyncSender<()>,
    ) -> Arc<Self> {
        let boot = boot_id(&std::env::vars_os().collect());
        let boot = boot.as_deref().and_then(of_boot);
        Arc::new(Self {
            chains: Chains::new(&arguments.cni_path),
            files,
            records: arguments.records(),
            ids: Names::of_addresses(boot.as_deref().unwrap_or(UNKNOWN_BOOT)),
            boot,
            arguments: arguments.clone(),
            last_default: Mutex::default(),
            pools: LivePools::default(),
            adding: Mutex::default(),
            taken: Mutex::default(),
            unread: UnreadFiles::default(),
            due,
        })
    }

    /// Requests a comparison with Docker: the daemon may hold something that Docker doesn't have.
    pub(crate) fn compare(&self) {
        // If a message waits already, that is enough.
        let _ = self.due.try_send(());
    }

    /// The pool of this ID.
    ///
    /// # Errors
    ///
    /// Docker has no such pool.
    pub(crate) fn pool(&self, id: &str) -> Result<Arc<LivePool>> {
        let pool = self.pools.pool(id);
        pool.with_context(|| {
            format!("PoolID: {id:?} is no pool that was requested and not released")
        })
    }
}

//! The parts of Docker's IPAM driver, and the release of what it has allocated.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime};

use anyhow::Result;
use cni::{Environment, NetworkName};
use docker_records::pool::{DOCKER_DIRECTORY, Pool};
use docker_records::records::{DOCKER_PREFIX, IFNAME, Purpose};
use reservations::DataDir;

use crate::command_line::CommandLine;
use crate::ipam::allocations::{Allocation, Allocations};
use crate::ipam::plugins::for_plugins;

/// The value of `CNI_NETNS`. Docker requests an address before the container's network namespace
/// exists, so this is the host's, which no plugin of a chain enters.
const NETNS: &str = "/proc/self/ns/net";

/// The driver.
pub(crate) struct IpamDriver {
    pub(crate) arguments: CommandLine,
    /// The environment of every chain's call.
    pub(crate) environment: Environment,
    pub(crate) allocations: Allocations,
    /// The networks of chains with records that can't be read.
    pub(crate) unread: Mutex<Vec<NetworkName>>,
    /// Gets a message when Docker is to be asked soon what it has.
    due: SyncSender<()>,
    /// Start of the container IDs of this process.
    prefix: String,
    next: AtomicU64,
}

impl IpamDriver {
    /// A driver that knows no address.
    pub(crate) fn new(arguments: &CommandLine, due: SyncSender<()>) -> Arc<Self> {
        Arc::new(Self {
            environment: for_plugins(&arguments.cni_path)
                .with("CNI_NETNS", NETNS)
                .with("CNI_IFNAME", IFNAME),
            arguments: arguments.clone(),
            allocations: Allocations::default(),
            unread: Mutex::default(),
            due,
            // Random, so that it differs from those of earlier processes.
            prefix: format!("{DOCKER_PREFIX}{:016x}", fastrand::u64(..)),
            next: AtomicU64::new(0),
        })
    }

    /// True if this process has made the container ID.
    pub(crate) fn is_of_this_process(&self, id: &str) -> bool {
        id.starts_with(&self.prefix)
    }

    /// Asks Docker soon what it has. If a message waits already, that is enough.
    pub(crate) fn sweep_soon(&self) {
        let _ = self.due.try_send(());
    }

    /// A new attachment, with a name that was never used before.
    pub(crate) fn new_allocation(
        &self,
        pool: &Pool,
        network: &NetworkName,
        purpose: Purpose,
        is_requested: bool,
        name: Option<&str>,
    ) -> Arc<Allocation> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let id = format!("{}-{number:x}", self.prefix);
        Arc::new(Allocation {
            id: id.parse().expect("it is a container ID"),
            pool: pool.clone(),
            network: network.clone(),
            purpose,
            name: name.map(str::to_owned),
            is_requested,
            added: SystemTime::now(),
            since: Some(Instant::now()),
        })
    }

    /// Releases an attachment. If that fails, it is tried again later.
    ///
    /// # Errors
    ///
    /// The chain's.
    pub(crate) fn release(&self, allocation: &Allocation) -> Result<()> {
        if !self.allocations.begin_release(&allocation.id) {
            return Ok(());
        }
        let released = self.del(allocation);
        self.allocations
            .end_release(&allocation.id, released.is_ok());
        if allocation.pool.conflist.is_none() && !self.allocations.use_directory() {
            self.remove_directory();
        }
        released
    }

    /// Removes the directory of reservations, if nothing is reserved in it.
    fn remove_directory(&self) {
        let directory: NetworkName = DOCKER_DIRECTORY.parse().expect("it is a name");
        let data_dir = DataDir {
            data_dir: self.arguments.data_dir.clone(),
            network: directory.clone(),
            cancellation: None,
        };
        if let Err(error) = data_dir.remove_unused(&directory) {
            tracing::warn!(%error, "an unused directory stays");
        }
    }
}

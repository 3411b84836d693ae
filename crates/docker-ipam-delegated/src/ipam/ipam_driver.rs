//! Docker's IPAM driver: its parts, and the release of what it holds.

use std::collections::hash_map::{HashMap, RandomState};
use std::fs;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant, SystemTime};

use anyhow::Result;
use cni::{ContainerId, NetworkName};
use state_files::names_in;

use crate::command_line::CommandLine;
use crate::docker::engine::Engine;
use crate::ipam::chain_config::DIRECTORY;
use crate::ipam::chains::Chains;
use crate::ipam::held::{AllHeld, Held};
use crate::ipam::pool::{Pool, PoolId};
use crate::ipam::pool_chain::PoolChain;
use crate::records::Purpose;
use crate::threads::lock;

/// The driver.
pub(crate) struct IpamDriver {
    pub(crate) chains: Chains,
    pub(crate) arguments: CommandLine,
    pub(crate) held: AllHeld,
    /// The pools that are in use, by their IDs: 60,000 addresses share one.
    pools: Mutex<HashMap<String, Weak<Pool>>>,
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
            chains: Chains::new(&arguments.cni_path, arguments.records()),
            arguments: arguments.clone(),
            held: AllHeld::default(),
            pools: Mutex::default(),
            unread: Mutex::default(),
            due,
            prefix: format!("docker-{}", random()),
            next: AtomicU64::new(0),
        })
    }

    /// The pool of this ID.
    ///
    /// # Errors
    ///
    /// The text is no ID of a pool.
    pub(crate) fn pool(&self, id: &str) -> Result<Arc<Pool>> {
        let mut pools = lock(&self.pools);
        if let Some(pool) = pools.get(id).and_then(Weak::upgrade) {
            return Ok(pool);
        }
        let pool = Arc::new(Pool::parse(id)?);
        pools.retain(|_, pool| pool.strong_count() > 0);
        pools.insert(id.to_owned(), Arc::downgrade(&pool));
        Ok(pool)
    }

    /// The pool of a new ID.
    ///
    /// # Errors
    ///
    /// A wrong value in the ID.
    pub(crate) fn pool_of(&self, id: PoolId) -> Result<Arc<Pool>> {
        self.pool(&Pool::of(id)?.text)
    }

    /// Asks Docker soon what it has. If a message waits already, that is enough.
    pub(crate) fn sweep_soon(&self) {
        let _ = self.due.try_send(());
    }

    /// The pool of an ID that Docker gives back; `None`, with a warning, if the text is no ID: an
    /// earlier version of the daemon may have made it.
    pub(crate) fn known_pool(&self, id: &str) -> Option<Arc<Pool>> {
        let pool = self.pool(id);
        pool.inspect_err(|error| tracing::warn!("released, and not known: {error:#}"))
            .ok()
    }

    /// A new attachment, with a name that was never used before.
    pub(crate) fn new_held(
        &self,
        pool: &Arc<Pool>,
        chain: &PoolChain,
        purpose: Purpose,
        is_requested: bool,
        name: Option<&str>,
    ) -> Arc<Held> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let id = format!("{}-{number:x}", self.prefix);
        Arc::new(Held {
            id: id.parse::<ContainerId>().expect("it is a container ID"),
            pool: Arc::clone(pool),
            network: chain.network.clone(),
            purpose,
            name: name.map(str::to_owned),
            is_requested,
            added: SystemTime::now(),
            since: Some(Instant::now()),
        })
    }

    /// True if this process has made the container ID.
    pub(crate) fn is_of_this_process(&self, id: &str) -> bool {
        id.starts_with(&self.prefix)
    }

    /// Releases an attachment. If that fails, it is tried again later.
    ///
    /// # Errors
    ///
    /// The chain's.
    pub(crate) fn release(&self, held: &Held) -> Result<()> {
        if !self.held.begin_release(&held.id) {
            return Ok(());
        }
        let released = self.chains.del(held);
        self.held.end_release(&held.id, released.is_ok());
        if held.pool.id.conflist.is_none() {
            self.held.while_unused(|| self.remove_directory());
        }
        released
    }

    /// Removes the directory of reservations when nothing is reserved in it.
    fn remove_directory(&self) {
        let directory = self.arguments.data_dir.join(DIRECTORY);
        let Ok(names) = names_in(&directory) else {
            return;
        };
        // The allocator's own files.
        let is_of_allocator =
            |name: &String| name == "lock" || name.starts_with("last_reserved_ip.");
        if names.iter().all(is_of_allocator) {
            for name in names {
                let _ = fs::remove_file(directory.join(name));
            }
            let _ = fs::remove_dir(directory);
        }
    }

    /// Docker's answer to the question what it has.
    ///
    /// # Errors
    ///
    /// Docker doesn't answer in this time, or not as expected.
    pub(crate) fn ask_docker(&self, at_most: Duration) -> Result<Engine> {
        Engine::ask(&self.arguments.docker_socket, at_most)
    }
}

/// A random number that no earlier process and no earlier call has had.
pub(crate) fn random() -> String {
    format!("{:016x}", RandomState::new().build_hasher().finish())
}

//! Start of the IPAM driver: reads the files and the records of an earlier daemon.
//!
//! What that daemon was doing when it was killed is left to the releases that wait. What can't
//! be read is tried again, and until it can be, nothing is given that it may have.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use anyhow::Result;
use cni::{ContainerId, NetworkName};
use state_files::boot_id;
use tokio::sync::Notify;

use crate::command_line::CommandLine;
use crate::http::refusal::{Refusal, impossible};
use crate::ipam::chain_config::Folders;
use crate::ipam::chains::{Chains, address_in};
use crate::ipam::given::{Holder, Use};
use crate::ipam::ipam_driver::IpamDriver;
use crate::ipam::live_pools::{LivePool, LivePools};
use crate::ipam::plugin_environment::for_plugins;
use crate::ipam::pool_choice::PoolChoice;
use crate::ipam::waiting_releases::{Release, WaitingReleases};
use crate::lock::lock;
use crate::state::address_record::{self, AddressRecord};
use crate::state::attachment_id::AddressIds;
use crate::state::caller_line::Progress;
use crate::state::files::{Files, Stage, Stored};
use crate::state::pool::{Gateway, Pool};

/// The driver, with what an earlier daemon has left. No chain runs.
///
/// # Errors
///
/// A folder of the daemon's files can't be read.
pub(crate) fn driver(arguments: &CommandLine, files: Arc<Files>) -> Result<Arc<IpamDriver>> {
    let choices = arguments.state_dir.join("choices");
    // Nothing in it holds anything.
    let _ = fs::remove_dir_all(&choices);
    let environment = std::env::vars_os().collect();
    let driver = IpamDriver {
        chains: Chains::new(&arguments.cni_path, &for_plugins(std::env::vars_os())),
        files,
        ids: AddressIds::new(boot_id(&environment).as_deref()),
        choice: PoolChoice {
            conf_dir: arguments.conf_dir.clone(),
            folders: Folders {
                data: arguments.data_dir.clone(),
                records: arguments.records(),
                cache: arguments.cache_dir.clone(),
            },
            choices,
            default_pools: arguments.default_pools.clone(),
            last: Mutex::default(),
            next: AtomicU64::new(0),
        },
        pools: LivePools::default(),
        releases: WaitingReleases::default(),
        adding: Mutex::default(),
        unread_records: Mutex::default(),
        compare: Notify::new(),
    };
    for pool in driver.files.pools.load()? {
        driver.take_in_pool(pool);
    }
    for gateway in driver.files.gateways.load()? {
        driver.take_in_gateway(gateway);
    }
    driver.take_in_records();
    tracing::info!(pools = driver.pools.all().len(), "recovered");
    Ok(Arc::new(driver))
}

impl IpamDriver {
    /// Takes in what could not be read, and can be by now.
    pub(crate) fn take_in_unread(&self) {
        let pools = self.files.pools.load_unread();
        let has_pools = !pools.is_empty();
        let gateways = if has_pools {
            // Those of the pools that can be read again, too.
            match self.files.gateways.load() {
                Ok(gateways) => gateways,
                Err(error) => {
                    // A pool without its gateways would give them.
                    let reason = format!("its gateways can't be read: {error}");
                    return self.files.pools.put_back_unread(pools, &reason);
                }
            }
        } else {
            self.files.gateways.load_unread()
        };
        for pool in pools {
            self.take_in_pool(pool);
        }
        for gateway in gateways {
            self.take_in_gateway(gateway);
        }
        if has_pools || !lock(&self.unread_records).is_empty() {
            self.take_in_records();
        }
    }

    fn take_in_pool(&self, stored: Stored<Pool>) {
        let Stored {
            file,
            object,
            stage,
        } = stored;
        match stage {
            Stage::Made => drop(self.pools.refer(object, &file, false)),
            Stage::Answered => drop(self.pools.refer(object, &file, true)),
            Stage::Ending => {
                let id = object.id();
                let ended = self.releases.ended().into_iter();
                let ended = ended.into_iter().find(|pool| pool.id == id);
                let ended = ended.unwrap_or_else(|| LivePool::new(object));
                self.releases.put_ended(ended, file);
            }
        }
    }

    fn take_in_gateway(&self, stored: Stored<Gateway>) {
        let Gateway { pool, ip } = stored.object;
        if self.pools.pool(&pool).is_some() {
            let holder = Holder::Gateway(stored.file);
            let is_sure = stored.stage == Stage::Answered;
            self.pools.recover(&pool, ip, Use { holder, is_sure });
        } else if self.files.pools.first_unread().is_none() {
            // Its pool has ended, so nobody has it.
            self.files.gateways.remove(&stored.file);
        }
    }

    /// Takes in the records of all pools' addresses.
    fn take_in_records(&self) {
        let mut folders: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for pool in self.all_pools() {
            match pool.pool.records() {
                Ok(folder) => folders.entry(folder).or_default().push(pool),
                Err(error) => tracing::warn!(%error, pool = pool.id, "has no configuration"),
            }
        }
        let known = self.known();
        let mut unread = BTreeSet::new();
        for ((folder, network), pools) in folders {
            let records = match address_record::read_all(&folder, &network) {
                Ok(records) => records,
                Err(error) => {
                    self.warn_unread(
                        &mut unread,
                        folder.join(network.as_str()),
                        &error.to_string(),
                    );
                    continue;
                }
            };
            for record in records {
                if !self.knows(&known, &record.container_id) {
                    let file = record.file.clone();
                    if let Err(reason) = self.take_in_record(record, &pools) {
                        self.warn_unread(&mut unread, file, &reason);
                    }
                }
            }
        }
        *lock(&self.unread_records) = unread;
    }

    /// Notes what can't be read, with a warning the first time.
    fn warn_unread(&self, unread: &mut BTreeSet<PathBuf>, path: PathBuf, reason: &str) {
        if !lock(&self.unread_records).contains(&path) {
            tracing::warn!(reason, path = %path.display(), "can't be read: it is kept");
        }
        unread.insert(path);
    }

    /// Takes in a record in the folder of these pools.
    ///
    /// # Errors
    ///
    /// The reason why it can't be read.
    fn take_in_record(&self, record: AddressRecord, pools: &[Arc<LivePool>]) -> Result<(), String> {
        let container_id = record.container_id;
        let (pool, ip, is_sure) = match record.content? {
            Some(content) => {
                let mut pools = pools.iter();
                // A record whose pool is not known is compared with Docker.
                let Some(pool) = pools.find(|pool| content.pool.as_ref() == Some(&pool.id)) else {
                    return Ok(());
                };
                let is_sure = match content.progress {
                    Progress::Made => Some(false),
                    Progress::Answered => Some(true),
                    // Docker never had it, or has given it back.
                    Progress::Begun | Progress::Ending => None,
                };
                (
                    pool,
                    address_in(content.ips.into_iter(), pool.pool.subnet),
                    is_sure,
                )
            }
            // A daemon was killed before it wrote anything, so no delegate ran. All pools of the
            // folder have the same delegates.
            None if self.ids.is_of_this_boot(container_id.as_str()) => (&pools[0], None, None),
            None => return Err("it is empty, and is from before the last boot".to_owned()),
        };
        match (ip, is_sure) {
            (Some(ip), Some(is_sure)) if self.pools.pool(&pool.id).is_some() => {
                let holder = Holder::Attachment(container_id);
                self.pools.recover(&pool.id, ip, Use { holder, is_sure });
            }
            _ => self.releases.put(Release {
                pool: Arc::clone(pool),
                ip,
                container_id,
            }),
        }
        Ok(())
    }

    /// The pools that Docker has, and those that have ended and are still needed.
    fn all_pools(&self) -> Vec<Arc<LivePool>> {
        let mut pools = self.pools.all();
        pools.extend(self.releases.ended());
        pools
    }

    /// The attachments of a pool that has ended whose records can't be read. They are the
    /// pool's if no other pool has the folder of its records.
    pub(crate) fn unread_attachments(&self, pool: &LivePool) -> Vec<ContainerId> {
        let Ok(folder) = pool.pool.records() else {
            return Vec::new();
        };
        // A pool whose folder isn't known may share it.
        let may_share = |other: &Arc<LivePool>| match other.pool.records() {
            Ok(records) => records == folder,
            Err(_) => true,
        };
        let is_shared = pool.pool.conflist.is_some() || self.all_pools().iter().any(may_share);
        if is_shared {
            return Vec::new();
        }
        self.unread_in(&folder)
    }

    fn unread_in(&self, (folder, network): &(PathBuf, NetworkName)) -> Vec<ContainerId> {
        let known = self.known();
        let records = address_record::read_all(folder, network).unwrap_or_else(|error| {
            let folder = folder.join(network.as_str());
            tracing::warn!(%error, folder = %folder.display(), "can't be read: it is kept");
            Vec::new()
        });
        let unread = records
            .into_iter()
            .filter(|record| record.content.is_err() && !self.knows(&known, &record.container_id));
        unread.map(|record| record.container_id).collect()
    }

    /// Refuses a new pool as long as the file of a pool can't be read: they may overlap.
    ///
    /// # Errors
    ///
    /// The file, with the reason.
    pub(crate) fn refuse_unread_pools(&self) -> Result<(), Refusal> {
        if self.files.pools.first_unread().is_some() {
            self.take_in_unread();
        }
        match self.files.pools.first_unread() {
            Some(unread) => Err(refusal(&unread, "a pool")),
            None => Ok(()),
        }
    }

    /// Refuses a new address as long as the file of a gateway can't be read: it may be that
    /// address. An attachment whose record can't be read keeps its reservation.
    ///
    /// # Errors
    ///
    /// The file, with the reason.
    pub(crate) fn refuse_unread_gateways(&self) -> Result<(), Refusal> {
        if self.files.gateways.first_unread().is_some() {
            self.take_in_unread();
        }
        match self.files.gateways.first_unread() {
            Some(unread) => Err(refusal(&unread, "a gateway")),
            None => Ok(()),
        }
    }
}

fn refusal((file, reason): &(PathBuf, String), what: &str) -> Refusal {
    impossible(format!(
        "{}: {reason}; the file has {what}, so nothing new is given until it can be read, or is removed",
        file.display()
    ))
}

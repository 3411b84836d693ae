//! Takes in the files and the records of earlier daemons, each once.
//!
//! An incomplete request or release of a killed daemon becomes a release that waits. A file that
//! can't be read is tried again, and until it can be read, nothing new is given that it may hold.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, bail};
use chain::record::{self, AttachmentRecord, RecordState};
use cni::{Attachment, ContainerId, Error, NetworkName};

use crate::ipam::held::{Held, Holder, Standing};
use crate::ipam::ipam_driver::IpamDriver;
use crate::ipam::ipam_settling::Forgotten;
use crate::ipam::live_pool::LivePool;
use crate::state::files::{Stage, Stored};
use crate::state::pool::{Gateway, Pool};
use crate::state::record::{RecordedAddress, is_address, read_all};
use crate::state::unread::Unread;
use crate::threads::lock;

/// A folder of records, and the name of the network in it.
type Records = (PathBuf, NetworkName);

impl IpamDriver {
    /// Takes in new files and records: at the start all, later those that could not be read before.
    /// Returns the attachments of unknown pools.
    ///
    /// # Errors
    ///
    /// An I/O error of a folder of files.
    pub(crate) fn take_in(&self) -> io::Result<Vec<Forgotten>> {
        let mut taken = lock(&self.taken);
        let mut unread = Vec::new();
        let pools = self.files.pools.of_earlier(&mut unread)?;
        // Read before any pool is taken in: a pool that doesn't know its gateways would give them
        // to containers.
        let gateways = self.files.gateways.of_earlier(&mut unread)?;
        for stored in pools {
            let file = self.files.pools.path_of(&stored.file);
            if !taken.contains(&stored.file) {
                match self.take_in_pool(&stored) {
                    Ok(()) => drop(taken.insert(stored.file)),
                    Err(error) => unread.push((file, error.msg)),
                }
            }
        }
        let all_pools_are_known = unread.is_empty();
        for stored in gateways {
            if !taken.contains(&stored.file) && self.take_in_gateway(&stored, all_pools_are_known) {
                taken.insert(stored.file);
            }
        }
        let mut forgotten = Vec::new();
        for ((folder, network), pools) in self.folders(&mut unread) {
            let path = folder.join(network.as_str());
            let (listed, empty) = read_all(&folder, &network).unwrap_or_else(|error| {
                unread.push((path.clone(), error.to_string()));
                (Vec::new(), Vec::new())
            });
            let listed = listed.into_iter();
            let listed = listed.map(|one| (one.attachment, one.file, one.content.map(Some)));
            let empty = empty.into_iter().map(|one| (one, path.clone(), Ok(None)));
            for (attachment, file, content) in listed.chain(empty) {
                if !self.is_new(&attachment, &taken) {
                    continue;
                }
                let container_id = attachment.container_id;
                match self.take_in_record(&container_id, content, &pools) {
                    Ok(None) => drop(taken.insert(container_id.to_string())),
                    // In the folders of network configurations, other programs have records, too.
                    Ok(Some(recorded)) if folder == self.records => forgotten.push(Forgotten {
                        container_id,
                        recorded,
                    }),
                    Ok(Some(_)) => {}
                    Err(reason) => {
                        if all_pools_are_known {
                            self.keep_for_its_pool(container_id, &pools);
                        }
                        unread.push((file, reason));
                    }
                }
            }
        }
        self.unread.replace(unread);
        Ok(forgotten)
    }

    /// True for an attachment that an earlier daemon has made for an address, and that was not
    /// taken in.
    fn is_new(&self, attachment: &Attachment, taken: &BTreeSet<String>) -> bool {
        let id = attachment.container_id.as_str();
        is_address(attachment) && !self.ids.has_made(id) && !taken.contains(id)
    }

    fn take_in_pool(&self, stored: &Stored<Pool>) -> Result<(), Error> {
        let pool = LivePool::new(stored.object.clone())?;
        match stored.stage {
            Stage::Ending => self.pools.refer_ended(pool, stored.file.clone()),
            stage => drop(
                self.pools
                    .refer(pool, &stored.file, stage == Stage::Answered),
            ),
        }
        Ok(())
    }

    /// False if it must be tried again, since the file of its pool may be unreadable.
    fn take_in_gateway(&self, stored: &Stored<Gateway>, all_pools_are_known: bool) -> bool {
        let Gateway { pool, ip } = &stored.object;
        let Some(pool) = self.pools.pool(pool) else {
            if all_pools_are_known {
                // Its pool has ended, so nobody has the gateway.
                self.files.gateways.remove(&stored.file);
            }
            return all_pools_are_known;
        };
        let holder = Holder::Gateway(stored.file.clone());
        let ip = Some(*ip);
        Held { pool, ip, holder }.recover(Standing::Given);
        true
    }

    /// The folders of all records, each with the pools that use it.
    fn folders(&self, unread: &mut Vec<Unread>) -> BTreeMap<Records, Vec<Arc<LivePool>>> {
        let mut folders: BTreeMap<Records, Vec<_>> = BTreeMap::new();
        for pool in self.pools.all() {
            folders.entry(pool.records()).or_default().push(pool);
        }
        let own = record::networks(&self.records).unwrap_or_else(|error| {
            unread.push((self.records.clone(), error.to_string()));
            Vec::new()
        });
        for network in own {
            folders.entry((self.records.clone(), network)).or_default();
        }
        folders
    }

    /// Takes in a record in the folder of these pools. Returns its content if it belongs to none
    /// of them.
    ///
    /// # Errors
    ///
    /// The reason why it can't be read.
    fn take_in_record(
        &self,
        container_id: &ContainerId,
        content: Result<Option<AttachmentRecord>, String>,
        pools: &[Arc<LivePool>],
    ) -> Result<Option<RecordedAddress>, String> {
        let (pool, ip, standing) = match (content?, pools.first()) {
            (Some(content), _) => {
                let recorded = RecordedAddress::from(content);
                let is_of = |pool: &&Arc<LivePool>| recorded.pool.as_ref() == Some(&pool.id);
                let Some(pool) = pools.iter().find(is_of) else {
                    return Ok(Some(recorded));
                };
                let mut ips = recorded.ips.into_iter();
                let ip = ips.find(|ip| pool.pool.subnet.contains(ip));
                let standing = match recorded.state {
                    RecordState::Added if ip.is_some() => Standing::Given,
                    // Docker never had it, or has given it back.
                    _ => Standing::Waiting,
                };
                (pool, ip, standing)
            }
            // A daemon was killed before it wrote anything, so no delegate ran. All pools of the
            // folder have the same delegates, so any of them can release it.
            (None, Some(pool)) if self.is_of_this_boot(container_id) => {
                (pool, None, Standing::Waiting)
            }
            (None, _) => return Err("it is empty, so its pool is unknown".to_owned()),
        };
        let holder = Holder::Attachment(container_id.clone());
        let pool = Arc::clone(pool);
        Held { pool, ip, holder }.recover(standing);
        Ok(None)
    }

    /// Keeps an attachment with an unreadable record until its pool ends. It belongs to the pool if
    /// no other pool has the folder of the record.
    fn keep_for_its_pool(&self, container_id: ContainerId, pools: &[Arc<LivePool>]) {
        if let [pool] = pools
            && pool.pool.conflist.is_none()
        {
            let holder = Holder::Attachment(container_id);
            let (pool, ip) = (Arc::clone(pool), None);
            Held { pool, ip, holder }.recover(Standing::Given);
        }
    }

    /// True if a process of this boot has made this ID, so that no power cut has lost its record.
    fn is_of_this_boot(&self, container_id: &ContainerId) -> bool {
        let boot = self.boot.as_ref();
        boot.is_some_and(|boot| container_id.as_str().starts_with(boot))
    }

    /// Tries again to take in the files that could not be read, if there are any.
    pub(crate) fn take_in_unread(&self) {
        self.unread.try_again(|| self.take_in());
    }

    /// Refuses to give anything new as long as a file in this folder can't be read: the file may
    /// have it.
    ///
    /// # Errors
    ///
    /// The file, with the reason.
    pub(crate) fn refuse_unread(&self, folder: &Path) -> Result<()> {
        if self.unread.first_in(folder).is_some() {
            self.take_in_unread();
        }
        if let Some((file, reason)) = self.unread.first_in(folder) {
            let file = file.display();
            bail!(
                "{file}: {reason}; nothing new is given until the file can be read, or is removed"
            );
        }
        Ok(())
    }
}

//! Addresses that are to be released: each is tried until it succeeds.
//!
//! Docker releases an address once, and only logs that this has failed. A delegate that is
//! away for a minute must not cost an address.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cni::ContainerId;

use crate::ipam_driver::IpamDriver;
use crate::refusal::Refusal;
use crate::state::{AddressFile, LivePool, lock};

/// Interval of the attempts.
pub(crate) const INTERVAL: Duration = Duration::from_secs(5);

/// An address that is to be released.
#[derive(Clone)]
pub(crate) struct Release {
    pub(crate) pool: Arc<LivePool>,
    /// The address; `None` if it is not known which the attachment got.
    pub(crate) ip: Option<IpAddr>,
    pub(crate) file: AddressFile,
}

/// The releases that have failed, and the pools that have ended before them.
#[derive(Default)]
pub(crate) struct Releases {
    waiting: Mutex<Vec<Release>>,
    /// The pools, each with the files of its last references, which stay as long as a call
    /// or a release has the pool: they have the configuration.
    ended: Mutex<Vec<(Arc<LivePool>, Vec<String>)>>,
    /// The IDs of the pools whose releases are being tried.
    tried: Mutex<BTreeSet<String>>,
}

impl Releases {
    /// Adds a release that is to be tried again.
    pub(crate) fn put(&self, release: Release) {
        lock(&self.waiting).push(release);
    }

    /// Adds a pool that has ended, with the file of its last reference.
    pub(crate) fn put_ended(&self, pool: Arc<LivePool>, file: String) {
        let mut ended = lock(&self.ended);
        match ended.iter_mut().find(|it| Arc::ptr_eq(&it.0, &pool)) {
            Some((_, files)) => files.push(file),
            None => ended.push((pool, vec![file])),
        }
    }

    /// True if this is the file of a release that waits, or of its pool.
    pub(crate) fn has_file(&self, name: &str) -> bool {
        lock(&self.waiting).iter().any(|it| it.file.name == name)
            || lock(&self.ended)
                .iter()
                .any(|(_, files)| files.iter().any(|file| file == name))
    }

    /// The release of an address that waits.
    pub(crate) fn of(&self, pool: &str, ip: IpAddr) -> Option<Release> {
        let waiting = lock(&self.waiting);
        let mut of_ip = waiting.iter().filter(|it| it.ip == Some(ip));
        of_ip.find(|it| it.pool.id == pool).cloned()
    }

    /// The attachments whose releases wait.
    pub(crate) fn container_ids(&self) -> Vec<ContainerId> {
        let waiting = lock(&self.waiting);
        let ids = waiting.iter().map(|it| it.file.container_id.clone());
        ids.flatten().collect()
    }

    /// The pool of this ID that has ended, if it is still needed.
    pub(crate) fn ended(&self, id: &str) -> Option<Arc<LivePool>> {
        let ended = lock(&self.ended);
        let found = ended.iter().find(|(pool, _)| pool.id == id);
        found.map(|(pool, _)| Arc::clone(pool))
    }

    /// The IDs of the pools that have releases.
    pub(crate) fn pools(&self) -> BTreeSet<String> {
        let waiting = lock(&self.waiting);
        waiting.iter().map(|it| it.pool.id.clone()).collect()
    }

    /// The releases of a pool, to be tried; `None` if they are being tried.
    fn begin(&self, pool: &str) -> Option<Vec<Release>> {
        if !lock(&self.tried).insert(pool.to_owned()) {
            return None;
        }
        let mut of_pool = lock(&self.waiting).clone();
        of_pool.retain(|it| it.pool.id == pool);
        Some(of_pool)
    }

    /// The releases of a pool were tried.
    fn end(&self, pool: &str) {
        lock(&self.tried).remove(pool);
    }

    fn remove(&self, file: &str) {
        lock(&self.waiting).retain(|it| it.file.name != file);
    }

    /// Takes away the pools that nothing else has; returns their files.
    fn take_ended(&self) -> Vec<String> {
        let mut ended = lock(&self.ended);
        let done = ended.extract_if(.., |(pool, _)| Arc::strong_count(pool) == 1);
        done.flat_map(|(_, files)| files).collect()
    }
}

impl IpamDriver {
    /// Releases an address. One that can't be released is tried again later. Its file
    /// stays.
    ///
    /// # Errors
    ///
    /// The chain's.
    pub(crate) fn release(&self, release: Release) -> Result<(), Refusal> {
        let released = self.try_release(&release);
        if let Err(error) = &released {
            let pool = &release.pool.id;
            tracing::warn!(%error, pool, ip = ?release.ip, "can't be released; tried again");
            self.releases.put(release);
        }
        released
    }

    /// Releases an address; its file goes with it.
    pub(crate) fn release_with_file(&self, release: Release) {
        let name = release.file.name.clone();
        if self.release(release).is_ok() {
            self.memory.addresses.remove(&name);
        }
    }

    /// Tries the releases of a pool that wait, unless they are being tried.
    pub(crate) fn retry_releases_of(&self, pool: &str) {
        let Some(releases) = self.releases.begin(pool) else {
            return;
        };
        for release in &releases {
            // If it fails, it waits for the next time.
            let _ = self.retry(release);
        }
        self.releases.end(pool);
        self.remove_ended_pools();
    }

    /// Removes the files of pools that have ended, and that nothing needs any more.
    pub(crate) fn remove_ended_pools(&self) {
        for file in self.releases.take_ended() {
            self.memory.pools.remove(&file);
        }
    }

    /// Tries a release that waits.
    ///
    /// # Errors
    ///
    /// The chain's.
    pub(crate) fn retry(&self, release: &Release) -> Result<(), Refusal> {
        let name = &release.file.name;
        self.try_release(release).inspect_err(|error| {
            tracing::debug!(%error, pool = release.pool.id, ip = ?release.ip, "still can't be released");
        })?;
        tracing::info!(pool = release.pool.id, ip = ?release.ip, "released late");
        self.memory.addresses.remove(name);
        self.releases.remove(name);
        Ok(())
    }

    fn try_release(&self, release: &Release) -> Result<(), Refusal> {
        // A gateway is no attachment's.
        match &release.file.container_id {
            Some(container_id) => Ok(self.chains.del(&release.pool, container_id)?),
            None => Ok(()),
        }
    }
}

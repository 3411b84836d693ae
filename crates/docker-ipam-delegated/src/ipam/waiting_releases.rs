//! Releases that have failed and are repeated, and the pools that they need.
//!
//! Docker releases an address once, and only logs that this has failed. A delegate that is
//! away for a minute must not cost an address.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use cni::ContainerId;

use crate::ipam::live_pools::LivePool;
use crate::lock::lock;

/// An address that is to be released.
#[derive(Clone)]
pub(crate) struct Release {
    pub(crate) pool: Arc<LivePool>,
    /// The address; `None` if it is not known which the attachment got.
    pub(crate) ip: Option<IpAddr>,
    /// The attachment that holds the address.
    pub(crate) container_id: ContainerId,
}

/// The releases that have failed, and the pools that have ended before them.
#[derive(Default)]
pub(crate) struct WaitingReleases {
    waiting: Mutex<Vec<Release>>,
    /// The pools, each with the files of its last references, which stay as long as a call
    /// or a release has the pool: they have the configuration.
    ended: Mutex<Vec<(Arc<LivePool>, Vec<String>)>>,
    /// The IDs of the pools whose releases are being tried.
    tried: Mutex<BTreeSet<String>>,
}

impl WaitingReleases {
    /// Adds a release that is to be tried again.
    pub(crate) fn put(&self, release: Release) {
        lock(&self.waiting).push(release);
    }

    /// Adds a pool that has ended, with the file of its last reference.
    pub(crate) fn put_ended(&self, pool: Arc<LivePool>, file: String) {
        let mut ended = lock(&self.ended);
        match ended.iter_mut().find(|other| Arc::ptr_eq(&other.0, &pool)) {
            Some((_, files)) => files.push(file),
            None => ended.push((pool, vec![file])),
        }
    }

    /// The release of an address that waits.
    pub(crate) fn of(&self, pool: &str, ip: IpAddr) -> Option<Release> {
        let waiting = lock(&self.waiting);
        let mut releases = waiting.iter();
        let found = releases.find(|release| release.ip == Some(ip) && release.pool.id == pool);
        found.cloned()
    }

    /// The attachments whose releases wait.
    pub(crate) fn attachments(&self) -> Vec<ContainerId> {
        let waiting = lock(&self.waiting);
        let ids = waiting.iter().map(|release| release.container_id.clone());
        ids.collect()
    }

    /// The pools that have ended and are still needed.
    pub(crate) fn ended(&self) -> Vec<Arc<LivePool>> {
        let ended = lock(&self.ended);
        ended.iter().map(|(pool, _)| Arc::clone(pool)).collect()
    }

    /// The IDs of the pools that have releases.
    pub(crate) fn pools(&self) -> BTreeSet<String> {
        let waiting = lock(&self.waiting);
        let ids = waiting.iter().map(|release| release.pool.id.clone());
        ids.collect()
    }

    /// The releases of a pool, to be tried; `None` if they are being tried.
    pub(crate) fn begin(&self, pool: &str) -> Option<Vec<Release>> {
        if !lock(&self.tried).insert(pool.to_owned()) {
            return None;
        }
        let mut of_pool = lock(&self.waiting).clone();
        of_pool.retain(|release| release.pool.id == pool);
        Some(of_pool)
    }

    /// The releases of a pool were tried.
    pub(crate) fn end(&self, pool: &str) {
        lock(&self.tried).remove(pool);
    }

    /// Takes away the release of an attachment.
    pub(crate) fn remove(&self, container_id: &ContainerId) {
        lock(&self.waiting).retain(|release| release.container_id != *container_id);
    }

    /// Takes away the pools that nothing else has; returns their files.
    pub(crate) fn take_ended(&self) -> Vec<String> {
        let mut ended = lock(&self.ended);
        let done = ended.extract_if(.., |(pool, _)| Arc::strong_count(pool) == 1);
        done.flat_map(|(_, files)| files).collect()
    }
}

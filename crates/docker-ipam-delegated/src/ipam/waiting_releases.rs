//! Addresses that are to be released: each is tried until it succeeds.
//!
//! Docker releases an address once, and only logs that this has failed. A delegate that is
//! away for a minute must not cost an address.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cni::ContainerId;

use crate::ipam::live_pools::{AddressFile, LivePool};
use crate::lock::lock;

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
    pub(crate) fn begin(&self, pool: &str) -> Option<Vec<Release>> {
        if !lock(&self.tried).insert(pool.to_owned()) {
            return None;
        }
        let mut of_pool = lock(&self.waiting).clone();
        of_pool.retain(|it| it.pool.id == pool);
        Some(of_pool)
    }

    /// The releases of a pool were tried.
    pub(crate) fn end(&self, pool: &str) {
        lock(&self.tried).remove(pool);
    }

    pub(crate) fn remove(&self, file: &str) {
        lock(&self.waiting).retain(|it| it.file.name != file);
    }

    /// Takes away the pools that nothing else has; returns their files.
    pub(crate) fn take_ended(&self) -> Vec<String> {
        let mut ended = lock(&self.ended);
        let done = ended.extract_if(.., |(pool, _)| Arc::strong_count(pool) == 1);
        done.flat_map(|(_, files)| files).collect()
    }
}

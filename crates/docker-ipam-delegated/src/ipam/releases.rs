//! Releases addresses, and tries again what could not be released.

use crate::http::refusal::Refusal;
use crate::ipam::ipam_driver::IpamDriver;
use crate::ipam::waiting_releases::Release;

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

//! Releases addresses, and repeats releases that have failed.

use cni::ContainerId;

use crate::http::refusal::Refusal;
use crate::ipam::ipam_driver::IpamDriver;
use crate::ipam::waiting_releases::Release;

impl IpamDriver {
    /// Releases an address. If that fails, it is tried again later.
    ///
    /// # Errors
    ///
    /// The chain's.
    pub(crate) fn release(&self, release: Release) -> Result<(), Refusal> {
        let released = self.chains.del(&release.pool, &release.container_id);
        if let Err(error) = &released {
            let pool = &release.pool.id;
            tracing::warn!(%error, pool, ip = ?release.ip, "can't be released; tried again");
            self.releases.put(release);
        }
        Ok(released?)
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
            self.files.pools.remove(&file);
        }
    }

    /// Tries a release that waits.
    ///
    /// # Errors
    ///
    /// The chain's.
    pub(crate) fn retry(&self, release: &Release) -> Result<(), Refusal> {
        let (pool, ip) = (&release.pool.id, &release.ip);
        let released = self.chains.del(&release.pool, &release.container_id);
        released
            .inspect_err(|error| tracing::debug!(%error, pool, ?ip, "still can't be released"))?;
        tracing::info!(pool, ?ip, "released late");
        self.releases.remove(&release.container_id);
        Ok(())
    }

    /// True if an attachment is Docker's, or is to be released, or was made by this process:
    /// its calls do what is left to be done.
    pub(crate) fn knows(&self, known: &[ContainerId], container_id: &ContainerId) -> bool {
        self.ids.has_made(container_id.as_str()) || known.binary_search(container_id).is_ok()
    }

    /// The attachments that are Docker's, or are to be released, in order.
    pub(crate) fn known(&self) -> Vec<ContainerId> {
        let mut known = self.pools.all_attachments();
        known.extend(self.releases.attachments());
        known.sort_unstable();
        known
    }
}

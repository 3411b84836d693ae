//! Releases addresses, and repeats releases that have failed.
//!
//! Docker releases an address once, and only logs a failure. Without a repetition, the address
//! would be lost if a delegate failed for a minute.

use anyhow::Result;
use cni::{Error, code};

use crate::ipam::held::{Held, Holder};
use crate::ipam::ipam_driver::IpamDriver;

impl IpamDriver {
    /// Releases an address. If that fails, it is tried again later.
    ///
    /// # Errors
    ///
    /// The chain's.
    pub(crate) fn release(&self, held: Held) -> Result<()> {
        let released = self.try_release(&held);
        if let Err(error) = &released {
            let pool = &held.pool.id;
            tracing::warn!(%error, pool, ip = ?held.ip, "can't be released; tried again");
        }
        drop(held);
        self.remove_ended_pools();
        Ok(released?)
    }

    /// Tries releases that wait.
    pub(crate) fn retry(&self, waiting: Vec<Held>) {
        for held in waiting {
            let (pool, ip) = (&held.pool.id, held.ip);
            match self.try_release(&held) {
                Ok(()) => tracing::info!(pool, ?ip, "released late"),
                Err(error) => tracing::debug!(%error, pool, ?ip, "still can't be released"),
            }
        }
        self.remove_ended_pools();
    }

    fn try_release(&self, held: &Held) -> Result<(), Error> {
        let released = match &held.holder {
            Holder::Attachment(container_id) => self.chains.del(&held.pool, container_id),
            Holder::Gateway(file) => self.files.gateways.try_remove(file).map_err(|error| {
                let path = self.files.gateways.path_of(file);
                Error::new(code::IO, format!("{}: {error}", path.display()))
            }),
        };
        held.end_release(released.is_ok());
        released
    }

    /// Removes the files of pools that have ended, and that nothing needs any more.
    pub(crate) fn remove_ended_pools(&self) {
        for file in self.pools.take_ended() {
            self.files.pools.remove(&file);
        }
    }
}

//! Files of the memory that could not be read. They are tried again, and until they can be
//! read, nothing is given that they may say something of.

use std::path::Path;

use cni::ContainerId;

use crate::http::refusal::{Refusal, impossible};
use crate::ipam::ipam_driver::IpamDriver;
use crate::lock::lock;
use crate::state::memory::{ATTACHMENT, Folder};
use crate::state::pool::{Address, Reference};

impl IpamDriver {
    /// Takes in what can be read by now.
    pub(crate) fn take_in_unread(&self) {
        let pools = self.memory.pools.load_unread::<Reference>();
        let has_pools = !pools.is_empty();
        for (file, stage) in pools {
            self.take_in_pool(file, stage);
        }
        for (file, stage) in self.memory.addresses.load_unread::<Address>() {
            self.take_in_address(file, stage);
        }
        if has_pools {
            self.take_in_without_pool();
        }
    }

    /// Takes in the addresses whose pools can be read by now.
    fn take_in_without_pool(&self) {
        let files: Vec<String> = lock(&self.without_pool).keys().cloned().collect();
        for file in files {
            if let Some(Ok(Some(stage))) = self.memory.addresses.read::<Address>(&file) {
                lock(&self.without_pool).remove(&file);
                self.take_in_address(file, stage);
            }
        }
    }

    /// Refuses a new pool as long as the file of a pool can't be read: they may overlap.
    ///
    /// # Errors
    ///
    /// The file, with the reason.
    pub(crate) fn refuse_unread_pools(&self) -> Result<(), Refusal> {
        if self.memory.pools.unread().is_empty() {
            return Ok(());
        }
        self.take_in_unread();
        match self.memory.pools.unread().into_iter().next() {
            Some((file, reason)) => Err(unread(&self.memory.pools, &file, &reason, "a pool")),
            None => Ok(()),
        }
    }

    /// Refuses a new address as long as the file of an address can't be read: it may be a
    /// gateway's. The file of an attachment that has a record of a known pool isn't.
    ///
    /// # Errors
    ///
    /// The file, with the reason.
    pub(crate) fn refuse_unread_addresses(&self) -> Result<(), Refusal> {
        if self.memory.addresses.unread().is_empty() {
            return Ok(());
        }
        self.take_in_unread();
        let unread_files = self.memory.addresses.unread().into_iter();
        match unread_files
            .into_iter()
            .find(|(file, _)| !self.has_record(file))
        {
            Some((file, reason)) => {
                Err(unread(&self.memory.addresses, &file, &reason, "an address"))
            }
            None => Ok(()),
        }
    }

    /// True if a known pool has a record of the attachment of this file: the allocator keeps
    /// its address.
    fn has_record(&self, file: &str) -> bool {
        let Ok(id) = format!("{ATTACHMENT}{file}").parse::<ContainerId>() else {
            return false;
        };
        let pools = self.state.pools();
        let mut records = pools.iter().map(|pool| self.chains.record(pool, &id));
        records.any(|it| matches!(it, Ok(Some(_))))
    }
}

fn unread(folder: &Folder, file: &str, reason: &str, what: &str) -> Refusal {
    let path = folder.path_of(file);
    let path: &Path = &path;
    impossible(format!(
        "{}: {reason}; it remembers {what}, so nothing is given until it can be read, or is removed",
        path.display()
    ))
}

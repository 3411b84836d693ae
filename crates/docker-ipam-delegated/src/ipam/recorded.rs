//! Reads the records of earlier daemons: what they have allocated for Docker.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use chain::OwnRecord;
use chain::record::{ListedRecord, RecordState, attachments, networks, records};
use cni::{Attachment, NetworkName};
use docker_records::pool::Pool;
use docker_records::records::{IFNAME, Line, PREFIX};

use crate::ipam::allocations::{Allocation, Phase};
use crate::ipam::ipam_driver::IpamDriver;
use crate::threads::lock;

impl IpamDriver {
    /// Reads all records. Those that can't be read now are read by [`Self::read_unread`].
    ///
    /// # Errors
    ///
    /// The folder can't be read.
    pub(crate) fn read_all_records(&self) -> Result<()> {
        let folder = self.arguments.records();
        let networks = networks(&folder).with_context(|| format!("{}", folder.display()))?;
        *lock(&self.unread) = networks;
        self.read_unread();
        Ok(())
    }

    /// Reads the records that could not be read before.
    pub(crate) fn read_unread(&self) {
        let folder = self.arguments.records();
        lock(&self.unread).retain(|network| !self.read_records(&folder, network));
    }

    /// Reads the records of a chain's network; false if one can't be read.
    fn read_records(&self, folder: &Path, network: &NetworkName) -> bool {
        let listed = attachments(folder, network);
        let is_whole = listed.and_then(|attachments| {
            let records = records(folder, network)?;
            self.remove_empty(folder, network, &attachments, &records);
            let are_read = records.into_iter().map(|record| self.take_in(record));
            Ok(are_read.fold(true, |all, one| all & one))
        });
        is_whole.unwrap_or_else(|error| {
            tracing::warn!(%error, %network, "its records can't be read");
            false
        })
    }

    /// Takes in a record; false if it can't be read.
    fn take_in(&self, record: ListedRecord) -> bool {
        let ListedRecord { network, file, .. } = record;
        let id = record.attachment.container_id;
        if self.is_of_this_process(id.as_str()) || self.allocations.has(&id) {
            return true;
        }
        let content = match record.content {
            Ok(content) => content,
            Err(reason) => {
                tracing::warn!(reason, file = %file.display(), "can't be read; what it holds stays reserved");
                return false;
            }
        };
        let Some(Line::Address(line)) = Line::of(&content) else {
            return true;
        };
        let ip = line.address_in(&content);
        let pool = match Pool::parse(&line.pool) {
            Ok(pool) => pool,
            Err(error) => {
                tracing::warn!(%error, file = %file.display(), "its pool can't be read");
                return false;
            }
        };
        let phase = match content.state {
            RecordState::Added if ip.is_some() => Phase::Given,
            // Docker never had it, or has given it back.
            _ => Phase::Unreleased,
        };
        let allocation = Allocation {
            id,
            pool,
            network,
            purpose: line.purpose,
            name: line.name,
            is_requested: line.address.is_some(),
            added: content.added,
            since: None,
        };
        self.allocations.add(Arc::new(allocation), ip, phase);
        true
    }

    /// Removes empty records of earlier daemons: they were killed before any delegate ran.
    fn remove_empty(
        &self,
        folder: &Path,
        network: &NetworkName,
        attachments: &[Attachment],
        records: &[ListedRecord],
    ) {
        let is_empty = |attachment: &&Attachment| {
            let id = attachment.container_id.as_str();
            let is_ours = id.starts_with(PREFIX) && attachment.ifname.as_str() == IFNAME;
            let listed = records.binary_search_by_key(attachment, |record| &record.attachment);
            is_ours && !self.is_of_this_process(id) && listed.is_err()
        };
        for attachment in attachments.iter().filter(is_empty) {
            if let Ok(Some(record)) = OwnRecord::open(folder, network, attachment) {
                record.remove();
            }
        }
    }
}

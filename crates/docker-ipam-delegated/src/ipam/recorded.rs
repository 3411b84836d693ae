//! Reads the records of earlier daemons: what they have allocated for Docker.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, ensure};
use chain::OwnRecord;
use chain::record::{ListedRecord, RecordState, attachments, networks, records};
use cni::{Attachment, NetworkName};
use docker_records::pool::Pool;
use docker_records::records::{CallerLine, DOCKER_PREFIX, IFNAME};

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
        let networks = networks(&folder).with_context(|| folder.display().to_string())?;
        *lock(&self.unread) = networks;
        self.read_unread();
        Ok(())
    }

    /// Reads the records that could not be read before.
    pub(crate) fn read_unread(&self) {
        let folder = self.arguments.records();
        lock(&self.unread).retain(|network| {
            let read = self.read_records(&folder, network);
            if let Err(error) = &read {
                tracing::warn!(%network, "what can't be read stays reserved: {error:#}");
            }
            read.is_err()
        });
    }

    /// Reads the records of a chain's network. Removes empty ones of earlier daemons, which were killed
    /// before any delegate ran.
    fn read_records(&self, folder: &Path, network: &NetworkName) -> Result<()> {
        let attachments = attachments(folder, network)?;
        let records = records(folder, network)?;
        let is_empty = |attachment: &&Attachment| {
            let id = attachment.container_id.as_str();
            let is_ours = id.starts_with(DOCKER_PREFIX) && attachment.ifname.as_str() == IFNAME;
            let listed = records.binary_search_by_key(attachment, |record| &record.attachment);
            is_ours && !self.is_of_this_process(id) && listed.is_err()
        };
        for attachment in attachments.iter().filter(is_empty) {
            if let Ok(Some(record)) = OwnRecord::open(folder, network, attachment) {
                record.remove();
            }
        }
        let unread = records.into_iter().filter_map(|record| {
            let file = record.file.display().to_string();
            let taken = self.take_in(record).context(file);
            taken.err().map(|error| format!("{error:#}"))
        });
        let unread: Vec<String> = unread.collect();
        ensure!(unread.is_empty(), unread.join("; "));
        Ok(())
    }

    /// Takes in a record.
    fn take_in(&self, record: ListedRecord) -> Result<()> {
        let id = record.attachment.container_id;
        if self.is_of_this_process(id.as_str()) || self.allocations.has(&id) {
            return Ok(());
        }
        let content = record.content.map_err(|reason| anyhow!(reason))?;
        let Some(CallerLine::Address(line)) = CallerLine::of(&content) else {
            return Ok(());
        };
        let ip = line.address_in(&content);
        let phase = match content.state {
            RecordState::Added if ip.is_some() => Phase::Given,
            // Docker never had it, or has given it back.
            _ => Phase::Unreleased,
        };
        let allocation = Allocation {
            id,
            pool: Pool::parse(&line.pool)?,
            network: record.network,
            purpose: line.purpose,
            name: line.name,
            is_requested: line.address.is_some(),
            added: content.added,
            since: None,
        };
        self.allocations.add(Arc::new(allocation), ip, phase);
        Ok(())
    }
}

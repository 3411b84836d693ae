//! Attachments that the chains' records have and the memory lacks, and the other way round.
//!
//! Neither is synced to the disk at each write: after a power cut, the file of one may be
//! there, and that of the other not.

use std::collections::HashSet;
use std::path::Path;

use chain::tools;
use cni::{Attachment, NetworkName};

use crate::ipam_driver::IpamDriver;
use crate::memory::is_attachment;
use crate::recovery::has_conflist;

/// An address whose pool the memory doesn't have.
pub(crate) struct Orphan {
    /// The name of its file.
    pub(crate) file: String,
    /// The ID of the pool.
    pub(crate) pool: String,
}

impl IpamDriver {
    /// Releases the attachments in a folder of records that the memory lacks, and removes
    /// the addresses that are nobody's then. Networks of network configurations have
    /// their records elsewhere, in folders that others use, too.
    pub(crate) fn release_forgotten(&self, records: &Path, orphans: Vec<Orphan>) {
        let known = self.state.container_ids().into_iter();
        let known: HashSet<_> = known.chain(self.releases.container_ids()).collect();
        let networks = tools::networks(records).unwrap_or_default();
        for network in &networks {
            let attachments = tools::attachments(records, network).unwrap_or_default();
            let is_ours = |it: &&Attachment| is_attachment(it.container_id.as_str());
            for it in attachments.iter().filter(is_ours) {
                if !known.contains(&it.container_id) {
                    self.release_record(records, network, it);
                }
            }
        }
        for Orphan { file, pool } in orphans {
            if has_conflist(&pool) {
                tracing::warn!(file, pool, "an address without its pool; see ipamctl gc");
            } else {
                self.memory.addresses.remove(&file);
            }
        }
    }

    fn release_record(&self, records: &Path, network: &NetworkName, attachment: &Attachment) {
        let id = &attachment.container_id;
        let record = tools::record_of(records, network, attachment);
        let content = record.ok().flatten().and_then(|it| it.content.ok());
        let Some(config) = content.and_then(|it| it.config()) else {
            tracing::warn!(%id, %network, "a record that the memory lacks can't be read");
            return;
        };
        match self.chains.release(&config, id) {
            Ok(()) => tracing::warn!(%id, %network, "released: the memory has lost it"),
            Err(error) => tracing::warn!(%error, %id, %network, "can't be released now"),
        }
    }
}

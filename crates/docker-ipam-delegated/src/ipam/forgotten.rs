//! Attachments that the chains' records have and the memory lacks, and addresses whose pool
//! the memory lacks.
//!
//! Neither is synced to the disk at each write: after a power cut, the file of one may be
//! there, and that of the other not.

use std::collections::HashSet;
use std::net::IpAddr;
use std::path::Path;

use chain::record::{self as records, ListedRecord};
use cni::{Attachment, ContainerId, IpamResult, NetworkConfig, NetworkName};

use crate::docker::engine::Engine;
use crate::docker::judgement::{Held, Verdict, judge};
use crate::ipam::ipam_driver::IpamDriver;
use crate::lock::lock;
use crate::state::memory::file_of;

/// An attachment that no call of Docker's can release.
pub(crate) struct Forgotten {
    /// The name of its file, which need not be there.
    file: String,
    container_id: Option<ContainerId>,
    /// Its addresses, as far as they are known.
    ips: Vec<IpAddr>,
    /// The configuration of its chain, by its record.
    config: Option<NetworkConfig>,
}

impl IpamDriver {
    /// The attachments in a folder of records that the memory lacks, and the addresses whose
    /// pool it lacks. Networks of network configurations have their records elsewhere, in
    /// folders that others use, too.
    pub(crate) fn forgotten(&self, records: &Path) -> Vec<Forgotten> {
        let mut all = self.forgotten_records(records);
        for (file, address) in lock(&self.without_pool).iter() {
            if all.iter().all(|it| it.file != *file) {
                all.push(Forgotten {
                    file: file.clone(),
                    container_id: address.container_id.clone(),
                    ips: address.ip.into_iter().collect(),
                    config: None,
                });
            }
        }
        all
    }

    fn forgotten_records(&self, records: &Path) -> Vec<Forgotten> {
        let known = self.state.container_ids().into_iter();
        let known: HashSet<_> = known.chain(self.releases.container_ids()).collect();
        let mut all = Vec::new();
        let networks = records::networks(records);
        for network in networks.unwrap_or_else(|error| kept(records, &error)) {
            let attachments = records::attachments(records, &network);
            for it in attachments.unwrap_or_else(|error| kept(records, &error)) {
                if !known.contains(&it.container_id)
                    && let Some(file) = file_of(it.container_id.as_str())
                    && self.is_forgotten(file)
                {
                    all.extend(read(records, &network, &it, file));
                }
            }
        }
        all
    }

    /// True if the memory doesn't know the attachment of this file. A call makes the file
    /// before the record, and removes it after: if there was a record and is no file, no call
    /// works on it.
    fn is_forgotten(&self, file: &str) -> bool {
        let addresses = &self.memory.addresses;
        let is_missing = match addresses.has(file) {
            Ok(is_there) => !is_there,
            Err(error) => {
                let file = addresses.path_of(file);
                tracing::warn!(%error, file = %file.display(), "can't be looked for");
                false
            }
        };
        is_missing
            || addresses.unread().contains_key(file)
            || lock(&self.without_pool).contains_key(file)
    }

    /// Releases a forgotten attachment if Docker doesn't have its address.
    pub(crate) fn settle_forgotten(&self, it: &Forgotten, docker: &Engine) {
        let (file, ips) = (&it.file, &it.ips);
        match judge(Held::Attachment(ips), docker) {
            Verdict::InUse(user) => {
                tracing::warn!(
                    file,
                    ?ips,
                    user.network,
                    user.container,
                    "forgotten, and kept: Docker has it"
                );
            }
            Verdict::Unknown(why) => {
                tracing::warn!(file, why, "forgotten, and kept; see ipamctl gc --docker");
            }
            Verdict::Lost => self.release_forgotten(it),
        }
    }

    fn release_forgotten(&self, it: &Forgotten) {
        let (file, ips) = (&it.file, &it.ips);
        match (&it.config, &it.container_id) {
            (Some(config), Some(id)) => match self.chains.release(config, id) {
                Ok(()) => tracing::warn!(
                    file,
                    ?ips,
                    "released: forgotten, and Docker doesn't have it"
                ),
                Err(error) => {
                    tracing::warn!(%error, file, ?ips, "can't be released now");
                    return;
                }
            },
            // Its record may be in the folder of its network configuration.
            (None, Some(id)) => {
                tracing::warn!(%id, ?ips, "an address without its pool; see ipamctl gc --docker");
                return;
            }
            // A gateway is no attachment's.
            (_, None) => {}
        }
        lock(&self.without_pool).remove(file);
        self.memory.addresses.remove(file);
    }
}

fn read(
    records: &Path,
    network: &NetworkName,
    attachment: &Attachment,
    file: &str,
) -> Option<Forgotten> {
    let id = &attachment.container_id;
    let record = match records::record_of(records, network, attachment) {
        // Removed meanwhile.
        Ok(None) => return None,
        Ok(Some(ListedRecord {
            content: Ok(content),
            ..
        })) => content,
        Ok(Some(ListedRecord {
            content: Err(reason),
            ..
        })) => {
            tracing::warn!(%id, %network, reason, "the record of a forgotten attachment can't be read");
            return None;
        }
        Err(error) => {
            tracing::warn!(%id, %network, %error, "the record of a forgotten attachment can't be read");
            return None;
        }
    };
    let answer = record
        .answer()
        .and_then(|it| IpamResult::read("the record", it).ok());
    Some(Forgotten {
        file: file.to_owned(),
        container_id: Some(id.clone()),
        ips: answer
            .into_iter()
            .flat_map(|it| it.ips)
            .map(|it| it.ip())
            .collect(),
        config: record.config(),
    })
}

/// A folder that can't be read: nothing in it is known to be forgotten.
fn kept<T>(records: &Path, error: &std::io::Error) -> Vec<T> {
    tracing::warn!(%error, records = %records.display(), "can't be read: all is kept");
    Vec::new()
}

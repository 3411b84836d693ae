//! The record of an address: that of the attachment that holds it, which the chain writes.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use chain::record::{self, AttachmentRecord};
use cni::{Attachment, ContainerId, IpConfig, IpamResult, NetworkConfig, NetworkName};

use crate::state::attachment_id::is_of_address;
use crate::state::caller_line::{CallerLine, Progress};

/// The interface of every attachment.
pub(crate) const IFNAME: &str = "eth0";

/// The record of an address.
#[derive(Debug)]
pub(crate) struct AddressRecord {
    /// The container ID of the attachment.
    pub(crate) container_id: ContainerId,
    /// The file.
    pub(crate) file: PathBuf,
    /// The content; `None` if nothing was written yet, `Err` with the reason if it can't be
    /// read.
    pub(crate) content: Result<Option<Content>, String>,
}

/// The content of the record of an address.
#[derive(Debug)]
pub(crate) struct Content {
    /// The ID of the pool.
    pub(crate) pool: Option<String>,
    /// All addresses of the chain's result; none if there is no result.
    pub(crate) ips: Vec<IpAddr>,
    /// How far the attachment has come.
    pub(crate) progress: Progress,
    /// The configuration of its chain.
    pub(crate) config: Option<NetworkConfig>,
}

impl From<AttachmentRecord> for Content {
    fn from(record: AttachmentRecord) -> Self {
        let lines = CallerLine::all(&record);
        let pool = lines.iter().find_map(|line| match line {
            CallerLine::Pool(id) => Some(id.clone()),
            _ => None,
        });
        let result = record.answer();
        let result = result.and_then(|raw| IpamResult::read("the record", raw).ok());
        let ips = result.iter().flat_map(|result| &result.ips);
        Self {
            pool,
            ips: ips.map(IpConfig::ip).collect(),
            progress: Progress::of(&record, &lines),
            config: record.config(),
        }
    }
}

/// Reads the records of all addresses of a network.
///
/// # Errors
///
/// An I/O error of the folder. A missing one is empty.
pub(crate) fn read_all(folder: &Path, network: &NetworkName) -> io::Result<Vec<AddressRecord>> {
    let mut empty = BTreeSet::from_iter(record::attachments(folder, network)?);
    let mut all = Vec::new();
    for record in record::records(folder, network)? {
        empty.remove(&record.attachment);
        if is_address(&record.attachment) {
            all.push(AddressRecord {
                container_id: record.attachment.container_id,
                file: record.file,
                content: record.content.map(|content| Some(Content::from(content))),
            });
        }
    }
    empty.retain(is_address);
    all.extend(empty.into_iter().map(|attachment| AddressRecord {
        file: folder.join(network.as_str()),
        container_id: attachment.container_id,
        content: Ok(None),
    }));
    Ok(all)
}

/// True if the daemon has made this attachment for an address.
fn is_address(attachment: &Attachment) -> bool {
    attachment.ifname.as_str() == IFNAME && is_of_address(attachment.container_id.as_str())
}

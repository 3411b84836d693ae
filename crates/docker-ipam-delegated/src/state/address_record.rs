//! The record of an address: that of the attachment that holds it, which the chain writes.

use std::io;
use std::net::IpAddr;
use std::path::Path;

use chain::record::AttachmentRecord;
use cni::{Attachment, IpConfig, IpamResult, NetworkConfig, NetworkName};

use crate::state::attachment_id::is_of_address;
use crate::state::caller_line::CallerLine;
use crate::state::record::{self, Record};
use crate::state::stage::Stage;

/// The interface of every attachment.
pub(crate) const IFNAME: &str = "eth0";

/// The content of the record of an address.
#[derive(Debug)]
pub(crate) struct RecordedAddress {
    /// The ID of the pool.
    pub(crate) pool: Option<String>,
    /// All addresses of the chain's result; none if there is no result.
    pub(crate) ips: Vec<IpAddr>,
    /// Stage of the attachment.
    pub(crate) stage: Stage,
    /// The configuration of its chain.
    pub(crate) config: Option<NetworkConfig>,
}

impl From<AttachmentRecord> for RecordedAddress {
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
            stage: record.state.into(),
            config: record.config(),
        }
    }
}

/// Reads the records of all addresses of a network.
///
/// # Errors
///
/// An I/O error of the folder. A missing one is empty.
pub(crate) fn read_all(folder: &Path, network: &NetworkName) -> io::Result<Vec<Record>> {
    let mut records = record::read_all(folder, network)?;
    records.retain(|record| is_address(&record.attachment));
    Ok(records)
}

/// True if the daemon has made this attachment for an address.
fn is_address(attachment: &Attachment) -> bool {
    attachment.ifname.as_str() == IFNAME && is_of_address(attachment.container_id.as_str())
}

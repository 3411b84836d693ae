//! Records of attachments, which chains and the network driver write: the daemon's lines in them,
//! and the content of an address's record.

use std::io;
use std::net::IpAddr;
use std::path::Path;

use chain::record::{AttachmentRecord, ListedRecord, RecordState, attachments, records};
use cni::{Attachment, IpConfig, IpamResult, NetworkConfig, NetworkName};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use crate::state::attachment_id::is_of_address;

/// The records of a network, and the attachments of empty ones: a daemon was killed before it
/// wrote anything.
///
/// # Errors
///
/// An I/O error of the folder. A missing one is empty.
pub(crate) fn read_all(
    folder: &Path,
    network: &NetworkName,
) -> io::Result<(Vec<ListedRecord>, Vec<Attachment>)> {
    let mut empty = attachments(folder, network)?;
    let records = records(folder, network)?;
    empty.retain(|attachment| {
        let found = records.binary_search_by_key(&attachment, |record| &record.attachment);
        found.is_err()
    });
    Ok((records, empty))
}

/// A line of the daemon's in the record of an attachment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CallerLine {
    /// The ID of the address's pool.
    Pool(String),
    /// The endpoint, for the attachment of an endpoint.
    Endpoint(Plugged),
}

impl CallerLine {
    /// The line as it is written.
    pub(crate) fn to_raw(&self) -> Box<RawValue> {
        to_raw_value(self).expect("a line is JSON")
    }

    /// The daemon's lines in a record. One that another program has written is left out.
    pub(crate) fn all(record: &AttachmentRecord) -> Vec<Self> {
        let lines = record.caller_lines.iter();
        lines
            .filter_map(|line| serde_json::from_str(line.get()).ok())
            .collect()
    }
}

/// The values of an endpoint that Docker gives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Plugged {
    /// Docker's ID of the endpoint.
    pub(crate) id: String,
    /// Docker's ID of its network.
    pub(crate) network: String,
    /// The MAC address that Docker gives it, or an empty text.
    pub(crate) mac: String,
    /// The addresses that Docker gives it, each with its gateway, which may be empty.
    pub(crate) addresses: Vec<(String, String)>,
}

/// The interface of every attachment, in the plugins' namespace.
pub(crate) const IFNAME: &str = "eth0";

/// The content of the record of an address.
#[derive(Debug)]
pub(crate) struct RecordedAddress {
    /// The ID of the pool.
    pub(crate) pool: Option<String>,
    /// All addresses of the chain's result; none if there is no result.
    pub(crate) ips: Vec<IpAddr>,
    /// Progress of the attachment.
    pub(crate) state: RecordState,
    /// The configuration of its chain.
    pub(crate) config: Option<NetworkConfig>,
}

impl From<AttachmentRecord> for RecordedAddress {
    fn from(record: AttachmentRecord) -> Self {
        let mut lines = CallerLine::all(&record).into_iter();
        let pool = lines.find_map(|line| match line {
            CallerLine::Pool(id) => Some(id),
            CallerLine::Endpoint(_) => None,
        });
        let result = record.answer();
        let result = result.and_then(|raw| IpamResult::read("the record", raw).ok());
        let ips = result.iter().flat_map(|result| &result.ips);
        Self {
            pool,
            ips: ips.map(IpConfig::ip).collect(),
            state: record.state,
            config: record.config(),
        }
    }
}

/// True if the daemon has made this attachment for an address.
pub(crate) fn is_address(attachment: &Attachment) -> bool {
    attachment.ifname.as_str() == IFNAME && is_of_address(attachment.container_id.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_json_that_people_can_read() {
        let text = |line: CallerLine| line.to_raw().get().to_owned();
        assert_eq!(
            text(CallerLine::Pool("a/b".to_owned())),
            r#"{"pool":"a/b"}"#
        );
    }
}

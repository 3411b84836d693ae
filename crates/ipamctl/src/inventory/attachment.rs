//! Groups the rows of the inventory by attachment.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::time::SystemTime;

use chain::record::{AttachmentRecord, ListedRecord};
use cni::Attachment;
use serde::{Serialize, Serializer};

use super::row::{Row, RowState};
use crate::output::{joined, non_empty_or};

/// A container's interface on a network; or one address by itself: its reservation names no interface
/// (an old host-local's, a torn one, one that can't be read), or its attachment's record has others. The
/// keys are documented, and don't change their meaning.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct NetworkAttachment<'a> {
    /// The network; of a reservation that names nobody, the name of its directory.
    pub(crate) network: &'a str,
    #[serde(rename = "containerID")]
    pub(crate) container: Option<&'a str>,
    pub(crate) ifname: Option<&'a str>,
    /// Its rows, at least one; that of a record without addresses has no address.
    #[serde(serialize_with = "ips")]
    pub(crate) addresses: Vec<&'a Row>,
    #[serde(skip)]
    pub(crate) record: Option<&'a ListedRecord>,
    /// The record of Docker's endpoint that it is.
    #[serde(skip)]
    pub(crate) endpoint: Option<&'a ListedRecord>,
}

fn ips<S: Serializer>(addresses: &[&Row], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(addresses.iter().filter_map(|row| row.ip))
}

/// The attachments that hold something, in the order of network and container.
pub(crate) fn attachments(rows: &[Row]) -> Vec<NetworkAttachment<'_>> {
    let mut all: BTreeMap<_, NetworkAttachment<'_>> = BTreeMap::new();
    for row in rows {
        let network = row.network.as_deref().or(row.directory());
        let Some(network) = network.filter(|_| row.state.is_taken()) else {
            continue;
        };
        let container = row.container.as_deref();
        // Without an interface, the attachment of an address is unknown.
        let is_single =
            container.is_none() || row.ifname.is_none() || row.state == RowState::Leftover;
        let single = is_single.then_some((row.ip, &row.place));
        let key = (network, container, &row.ifname, &row.node, single);
        let attachment = all.entry(key).or_insert_with(|| NetworkAttachment {
            network,
            container,
            ifname: row.ifname.as_deref(),
            addresses: Vec::new(),
            record: row.record.as_deref(),
            endpoint: row.endpoint.as_deref(),
        });
        attachment.addresses.push(row);
    }
    all.into_values().collect()
}

impl<'a> NetworkAttachment<'a> {
    /// Its container and interface.
    ///
    /// # Errors
    ///
    /// The reason, if the reservation names no interface, or has an invalid name.
    pub(crate) fn attachment(&self) -> Result<Attachment, String> {
        let container = self.container.ok_or("its reservation names no container")?;
        let ifname = self.ifname.ok_or("its reservation names no interface")?;
        let id = container.parse();
        let id = id.map_err(|error| format!("{container:?} is not a container ID: {error}"))?;
        let name = ifname.parse();
        let name = name.map_err(|error| format!("{ifname:?} is not an interface name: {error}"))?;
        Ok(Attachment {
            container_id: id,
            ifname: name,
        })
    }

    pub(crate) fn ips(&self) -> impl Iterator<Item = IpAddr> {
        self.addresses.iter().filter_map(|row| row.ip)
    }

    /// The addresses in one text; `none` if there are none.
    pub(crate) fn ips_text(&self, none: &str) -> String {
        non_empty_or(joined(self.ips(), ", "), none)
    }

    /// True for an attachment of `docker-ipam-delegated`, which no runtime's list names: by its
    /// record's lines of the caller; without a record, by the name of its network.
    pub(crate) fn is_docker(&self) -> bool {
        match self.content() {
            _ if self.endpoint.is_some() => true,
            Some(content) => !content.caller_lines.is_empty(),
            None => self.network == "docker" || self.network.starts_with("docker-"),
        }
    }

    /// The two records of the attachment in different folders, if there are two: one is wrong.
    pub(crate) fn duplicate_records(&self) -> Option<String> {
        let first = &self.record?.file;
        let mut records = self.addresses.iter().flat_map(|row| &row.record);
        let second = &records.find(|record| record.file != *first)?.file;
        let (first, second) = (first.display(), second.display());
        let advice = "it has two records; remove the wrong one";
        Some(format!("{advice}: {first} or {second}"))
    }

    /// True for an address that the attachment's record doesn't name.
    pub(crate) fn is_leftover(&self) -> bool {
        self.addresses[0].state == RowState::Leftover
    }

    /// The content of its record, if it has a usable one.
    pub(crate) fn content(&self) -> Option<&AttachmentRecord> {
        self.record?.usable()
    }

    /// The time of the last ADD, DEL or reservation; `None` if one of these times is unknown.
    pub(crate) fn last_change(&self) -> Option<SystemTime> {
        let reservations = self.addresses.iter().map(|row| row.since);
        let record = self.record.map(|record| record.changed);
        let calls = self.content().map(|content| Some(content.since()));
        let times: Option<Vec<SystemTime>> = reservations.chain(record).chain(calls).collect();
        times?.into_iter().max()
    }

    /// The owner of its address, which has no container then.
    pub(crate) fn owner(&self) -> Option<&'a str> {
        self.addresses[0].owner.as_deref()
    }
}

/// `8f3e… eth0 on mynet (10.77.0.2)`.
impl fmt::Display for NetworkAttachment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let container = self.container.or(self.owner()).unwrap_or("(no container)");
        let ifname = self.ifname.unwrap_or("(any interface)");
        let (network, ips) = (self.network, self.ips_text("no address"));
        write!(f, "{container} {ifname} on {network} ({ips})")
    }
}

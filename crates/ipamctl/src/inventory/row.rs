//! A row of the inventory: what a file or a record says of an address, and which record belongs to it.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use chain::record::{ListedRecord, RecordState};
use cni::{IpConfig, IpamResult};
use reservations::State;
use reservations::view::{self, ListedAddress};
use serde::{Serialize, Serializer};

use super::AttachmentKey;
use super::cluster_address::ClusterAddress;
use super::container_names::ContainerNames;
use crate::output::times;

/// An address and its holder. The keys are documented, and don't change their meaning.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Row {
    /// The address; `None` for a record without any.
    #[serde(rename = "address")]
    pub(crate) ip: Option<IpAddr>,
    /// The network; `None` if the file doesn't name it.
    pub(crate) network: Option<String>,
    /// The name of the pool, if it has one.
    pub(crate) pool: Option<String>,
    /// What an address in a cluster's pool belongs to, instead of a container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<String>,
    /// The node, of an address in a cluster's pool.
    pub(crate) node: Option<String>,
    #[serde(rename = "containerID")]
    pub(crate) container: Option<String>,
    pub(crate) ifname: Option<String>,
    /// Time of the file's last change, or of the start of the ADD.
    #[serde(serialize_with = "times::serialize")]
    pub(crate) since: Option<SystemTime>,
    pub(crate) state: RowState,
    /// The names of the container.
    pub(crate) names: ContainerNames,
    #[serde(serialize_with = "record_file")]
    pub(crate) record: Option<Arc<ListedRecord>>,
    /// The record of Docker's endpoint that has the address.
    #[serde(skip)]
    pub(crate) endpoint: Option<Arc<ListedRecord>>,
    /// The directory of the reservation, or the path of its space in a cluster; `None` for an address
    /// that only a record names.
    #[serde(skip)]
    pub(crate) place: Option<Arc<Path>>,
    /// True if another node, or another machine, of a cluster holds it.
    #[serde(skip)]
    pub(crate) is_held_elsewhere: bool,
    /// The address in a cluster, if it may be released from here.
    #[serde(skip)]
    pub(crate) in_cluster: Option<Arc<ClusterAddress>>,
}

fn record_file<S: Serializer>(
    record: &Option<Arc<ListedRecord>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let file = record.as_ref().map(|record| record.file.display());
    file.map(|file| file.to_string()).serialize(serializer)
}

impl Row {
    /// The address of a reservation.
    pub(super) fn reserved(place: &Arc<Path>, listed: ListedAddress) -> Self {
        let (holder, state) = match listed.state {
            State::Reserved(holder) => (Some(holder), RowState::Reserved),
            State::Torn if listed.is_empty => (None, RowState::Empty),
            State::Torn => (None, RowState::Torn),
            State::Unreadable | State::NotAFile => (None, RowState::Unreadable),
        };
        let named = holder.map(|holder| (holder.container_id, holder.ifname));
        let (container, ifname) = named.unzip();
        Self {
            ip: Some(listed.ip),
            network: listed.network,
            container,
            ifname: ifname.flatten(),
            since: listed.since,
            state,
            place: Some(Arc::clone(place)),
            ..Self::default()
        }
    }

    /// The addresses of a record that has no reservation: those of its answer that aren't lost, or
    /// one row without an address.
    pub(super) fn recorded(
        record: &Arc<ListedRecord>,
        is_lost: impl Fn(IpAddr) -> bool,
    ) -> Vec<Self> {
        let content = record.usable();
        let new = |ip| {
            let mut row = Self {
                ip,
                network: Some(record.network.to_string()),
                container: Some(record.attachment.container_id.to_string()),
                ifname: Some(record.attachment.ifname.to_string()),
                since: content.map(|content| content.added).or(record.changed),
                ..Self::default()
            };
            row.set_record(record);
            row
        };
        let delegates = content.map_or(&[][..], |content| &content.delegates);
        let mut answers = delegates.iter().rev();
        let last = answers.find_map(|delegate| delegate.result.as_deref());
        let result = last.and_then(|last| IpamResult::read("result", last).ok());
        let result = result.unwrap_or_default();
        let answered = result.ips.iter().map(IpConfig::ip);
        let kept = answered.filter(|ip| !is_lost(*ip));
        let mut rows: Vec<Self> = kept.map(|ip| new(Some(ip))).collect();
        if rows.is_empty() {
            rows.push(new(None));
        }
        rows
    }

    /// The attachment, if it is known.
    pub(super) fn attachment_key(&self) -> Option<AttachmentKey<'_>> {
        let (network, container) = (self.network.as_deref()?, self.container.as_deref()?);
        Some((network, container, self.ifname.as_deref()?))
    }

    pub(super) fn set_record(&mut self, record: &Arc<ListedRecord>) {
        self.record = Some(Arc::clone(record));
        self.state = RowState::of(record);
        if let Some(content) = record.usable() {
            self.names = ContainerNames::of(content);
        }
    }

    /// The file of the reservation, or the name of the address in a cluster.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        if let Some(stored) = &self.in_cluster {
            return Some(PathBuf::from(&stored.path));
        }
        Some(self.place.as_ref()?.join(self.ip?.to_string()))
    }

    /// The name of the directory: a network, or a space of named pools.
    pub(crate) fn directory(&self) -> Option<&str> {
        self.place.as_ref()?.file_name()?.to_str()
    }

    /// The reservation as it is now; `None` if it has no file any more. One in a cluster isn't read.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub(crate) fn read_again(&self) -> io::Result<Option<Self>> {
        let (Some(place), Some(ip), None) = (&self.place, self.ip, &self.in_cluster) else {
            return Ok(None);
        };
        let now = view::address(place, ip)?;
        Ok(now.map(|listed| Self::reserved(place, listed)))
    }

    /// True if the reservation's file is as it was read.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub(crate) fn is_as_read(&self) -> io::Result<bool> {
        let read = |row: &Self| (row.since, row.container.clone(), row.ifname.clone());
        let now = self.read_again()?;
        Ok(now.is_some_and(|now| read(&now) == read(self)))
    }

    /// True if it belongs to this network, this named pool, or the directory of this name.
    pub(crate) fn matches_name(&self, name: &str) -> bool {
        let (network, pool) = (self.network.as_deref(), self.pool.as_deref());
        [network, pool, self.directory()].contains(&Some(name))
    }
}

/// State of a row, by its record or its file. The names are documented.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RowState {
    /// By the record, ADD has begun.
    Adding,
    /// By the record, ADD has succeeded.
    Added,
    /// By the record, DEL has begun.
    Deleting,
    /// The record can't be used.
    BrokenRecord,
    /// The record of its attachment has other addresses.
    Leftover,
    /// Reserved without a record: by host-local, or the record is lost.
    #[default]
    Reserved,
    /// The file is empty: a crash has left it, and a full pool gives the address out.
    Empty,
    /// The file is cut off: nobody's, and no ADD gets the address.
    Torn,
    /// The file or the key can't be read: reserved, to an unknown holder.
    Unreadable,
}

impl RowState {
    /// The state of a record.
    pub(crate) fn of(record: &ListedRecord) -> Self {
        match record.content.as_ref().map(|content| content.state) {
            Ok(RecordState::Adding) => Self::Adding,
            Ok(RecordState::Added) => Self::Added,
            Ok(RecordState::Deleting) => Self::Deleting,
            Err(_) => Self::BrokenRecord,
        }
    }

    /// True unless an ADD may have the address.
    pub(crate) fn is_taken(self) -> bool {
        self != Self::Empty
    }
}

impl fmt::Display for RowState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

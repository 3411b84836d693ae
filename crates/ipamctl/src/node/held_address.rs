//! A holding: an address, its holder, and the holder's record.

use std::net::IpAddr;
use std::time::SystemTime;

use chain::record::{AttachmentRecord, ListedRecord, RecordState};
use cni::IpamResult;
use reservations::State;
use reservations::view::ListedAddress;

use crate::node::docker;
use crate::node::inventory::{Directory, NetworkRecord};
use crate::node::names::Names;
use crate::node::pools::PlacedPool;

/// State of a holding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum HoldingState {
    /// The record says: ADD has begun.
    Adding,
    /// The record says: ADD has succeeded.
    Added,
    /// The record says: DEL has begun.
    Deleting,
    /// The record can't be used.
    Broken,
    /// Reserved, without a record: host-local's, or its record is lost.
    Reserved,
    /// The file is empty or cut off, and young: somebody may be writing it.
    BeingWritten,
    /// The file is empty or cut off: free.
    Torn,
    /// The file can't be read: reserved, to an unknown holder.
    Unreadable,
}

impl HoldingState {
    /// The state as it is printed, and as it stands in JSON.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Adding => "adding",
            Self::Added => "added",
            Self::Deleting => "deleting",
            Self::Broken => "broken-record",
            Self::Reserved => "reserved",
            Self::BeingWritten => "being-written",
            Self::Torn => "torn",
            Self::Unreadable => "unreadable",
        }
    }

    /// The state of a record.
    pub(crate) fn of_record(record: &ListedRecord) -> Self {
        match &record.content {
            Ok(content) => match content.state {
                RecordState::Adding => Self::Adding,
                RecordState::Added => Self::Added,
                RecordState::Deleting => Self::Deleting,
            },
            Err(_) => Self::Broken,
        }
    }
}

/// An address and its holder.
#[derive(Clone, Debug)]
pub(crate) struct Holding<'a> {
    /// The address; `None` for a record without any.
    pub(crate) ip: Option<IpAddr>,
    /// The network; `None` if the file doesn't say it.
    pub(crate) network: Option<&'a str>,
    /// The directory of the reservation; `None` for an address that is kept elsewhere.
    pub(crate) directory: Option<&'a Directory>,
    /// The pool that the address is of, if it is known.
    pub(crate) pool: Option<&'a PlacedPool>,
    pub(crate) container: Option<&'a str>,
    pub(crate) ifname: Option<&'a str>,
    /// Time at which the file was written, or the ADD began.
    pub(crate) since: Option<SystemTime>,
    pub(crate) state: HoldingState,
    pub(crate) record: Option<&'a NetworkRecord>,
    /// Docker's side of it, if it was made for Docker.
    pub(crate) docker: Option<&'a docker::Holder>,
}

impl<'a> Holding<'a> {
    /// The holding of a reservation.
    pub(crate) fn reserved(
        directory: &'a Directory,
        listed: &'a ListedAddress,
        pool: Option<&'a PlacedPool>,
        record: Option<&'a NetworkRecord>,
    ) -> Self {
        let holder = match &listed.state {
            State::Reserved(holder) => Some(holder),
            _ => None,
        };
        let state = match (&listed.state, record) {
            (State::Reserved(_), Some(record)) => HoldingState::of_record(&record.listed),
            (State::Reserved(_), None) => HoldingState::Reserved,
            (State::BeingWritten, _) => HoldingState::BeingWritten,
            (State::Torn, _) => HoldingState::Torn,
            (State::Unreadable, _) => HoldingState::Unreadable,
        };
        Self {
            ip: Some(listed.ip),
            network: listed.network.as_deref(),
            directory: Some(directory),
            pool,
            container: holder.map(|it| it.container_id.as_str()),
            ifname: holder.and_then(|it| it.ifname.as_deref()),
            since: listed.since,
            state,
            record,
            docker: None,
        }
    }

    /// The holdings of a record whose addresses are in no directory: one for each address
    /// of its answer that isn't lost, or one without an address.
    pub(crate) fn recorded(
        record: &'a NetworkRecord,
        is_lost: impl Fn(IpAddr) -> bool,
    ) -> Vec<Self> {
        let content = record.listed.content.as_ref().ok();
        let answers = content.into_iter().flat_map(|it| it.delegates.iter().rev());
        let answer = answers.filter_map(|it| it.result.as_deref()).next();
        let result = answer.and_then(|raw| IpamResult::read("result", raw).ok());
        let ips: Vec<IpAddr> = result
            .iter()
            .flat_map(|it| it.ips.iter().map(cni::IpConfig::ip))
            .filter(|ip| !is_lost(*ip))
            .collect();
        let attachment = &record.listed.attachment;
        let of = |ip| Self {
            ip,
            network: Some(record.network.as_str()),
            directory: None,
            pool: None,
            container: Some(attachment.container_id.as_str()),
            ifname: Some(attachment.ifname.as_str()),
            since: content.map(|it| it.added).or(record.listed.changed),
            state: HoldingState::of_record(&record.listed),
            record: Some(record),
            docker: None,
        };
        if ips.is_empty() {
            return vec![of(None)];
        }
        ips.into_iter().map(|ip| of(Some(ip))).collect()
    }

    /// The content of the record, if there is one that can be used.
    pub(crate) fn recorded_content(&self) -> Option<&'a AttachmentRecord> {
        self.record?.listed.content.as_ref().ok()
    }

    /// The names of the container.
    pub(crate) fn names(&self) -> Names {
        let recorded = self.recorded_content();
        let recorded = recorded.map_or_else(Names::default, |it| Names::of(&it.args));
        match self.docker {
            Some(docker) => recorded.and(&docker.names),
            None => recorded,
        }
    }

    /// The name of the pool, if it has one.
    pub(crate) fn pool_name(&self) -> Option<&'a str> {
        if let Some(pool) = self.pool {
            return pool.name();
        }
        // The directory of a named pool whose ranges are unknown.
        let directory = self.directory?.name.as_str();
        Some(directory).filter(|it| self.network.is_some_and(|network| network != *it))
    }

    /// True if it is of this network or this named pool.
    pub(crate) fn is_of(&self, name: &str) -> bool {
        self.network == Some(name)
            || self.pool_name() == Some(name)
            || self.directory.is_some_and(|it| it.name.as_str() == name)
    }
}

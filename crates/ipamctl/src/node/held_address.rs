//! A held address: its holder, and the holder's record.

use std::net::IpAddr;
use std::time::SystemTime;

use cni::IpamResult;
use reservations::State;
use reservations::view::ListedAddress;
use serde::{Serialize, Serializer};

use crate::node::directory::Directory;
use crate::node::docker;
use crate::node::names::Names;
use crate::node::pools::PlacedPool;
use crate::node::record::{HeldState, NetworkRecord};
use crate::output::times;

/// An address and its holder. The keys are documented, and don't change their meaning.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct HeldAddress<'a> {
    /// The address; `None` for a record without any.
    #[serde(rename = "address")]
    pub(crate) ip: Option<IpAddr>,
    /// The network; `None` if the file doesn't say it.
    pub(crate) network: Option<&'a str>,
    /// The name of the pool, if it has one.
    pub(crate) pool: Option<&'a str>,
    /// The node, of an address in a cluster's pool.
    pub(crate) node: Option<&'a str>,
    #[serde(rename = "containerID")]
    pub(crate) container: Option<&'a str>,
    pub(crate) ifname: Option<&'a str>,
    /// Time at which the file was written, or the ADD began.
    #[serde(serialize_with = "times::serialize")]
    pub(crate) since: Option<SystemTime>,
    pub(crate) state: HeldState,
    /// The names of the container.
    pub(crate) names: Names,
    #[serde(serialize_with = "record_file")]
    pub(crate) record: Option<&'a NetworkRecord>,
    /// The directory of the reservation; `None` for an address that is kept elsewhere.
    #[serde(skip)]
    pub(crate) directory: Option<&'a Directory>,
    /// Docker's side of it, if it was made for Docker.
    #[serde(skip)]
    pub(crate) docker: Option<docker::Holder>,
}

fn record_file<S: Serializer>(
    record: &Option<&NetworkRecord>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let file = record.map(|record| record.listed.file.display().to_string());
    file.serialize(serializer)
}

impl<'a> HeldAddress<'a> {
    /// An address of which nothing else is known.
    pub(crate) fn new(ip: Option<IpAddr>, state: HeldState) -> Self {
        Self {
            ip,
            network: None,
            pool: None,
            node: None,
            container: None,
            ifname: None,
            since: None,
            state,
            names: Names::default(),
            record: None,
            directory: None,
            docker: None,
        }
    }

    /// The address of a reservation.
    pub(crate) fn reserved(
        directory: &'a Directory,
        listed: &'a ListedAddress,
        pool: Option<&'a PlacedPool>,
        record: Option<&'a NetworkRecord>,
    ) -> Self {
        let state = match &listed.state {
            State::Reserved(_) => record.map_or(HeldState::Reserved, NetworkRecord::state),
            State::BeingWritten => HeldState::BeingWritten,
            State::Torn => HeldState::Torn,
            State::Unreadable => HeldState::Unreadable,
        };
        let mut address = Self::new(Some(listed.ip), state);
        if let State::Reserved(holder) = &listed.state {
            address.container = Some(&holder.container_id);
            address.ifname = holder.ifname.as_deref();
        }
        address.network = listed.network.as_deref();
        // A directory that isn't the network's is that of a named pool.
        let name = Some(directory.name.as_str());
        let of_directory = name.filter(|_| address.network.is_some() && address.network != name);
        address.pool = pool.map_or(of_directory, PlacedPool::name);
        address.since = listed.since;
        address.directory = Some(directory);
        address.recorded_in(record)
    }

    /// The addresses of a record that are in no directory: those of its answer that aren't
    /// lost, or one without an address.
    pub(crate) fn recorded(
        record: &'a NetworkRecord,
        is_lost: impl Fn(IpAddr) -> bool,
    ) -> Vec<Self> {
        let attachment = &record.listed.attachment;
        let held = |ip| {
            let mut address = Self::new(ip, record.state());
            address.network = Some(record.network.as_str());
            address.container = Some(attachment.container_id.as_str());
            address.ifname = Some(attachment.ifname.as_str());
            let added = record.content().map(|content| content.added);
            address.since = added.or(record.listed.changed);
            address.recorded_in(Some(record))
        };
        let mut ips = answered(record);
        ips.retain(|ip| !is_lost(*ip));
        if ips.is_empty() {
            return vec![held(None)];
        }
        ips.into_iter().map(|ip| held(Some(ip))).collect()
    }

    fn recorded_in(mut self, record: Option<&'a NetworkRecord>) -> Self {
        self.record = record;
        if let Some(content) = record.and_then(NetworkRecord::content) {
            self.names = Names::of(&content.args);
        }
        self
    }

    /// The address with Docker's side of it.
    pub(crate) fn known_to(mut self, docker: &docker::Docker) -> Self {
        let container = self.container;
        self.docker = container.and_then(|container| docker.holder(container, self.ip));
        if let Some(holder) = &self.docker {
            self.names = self.names.and(&holder.names);
        }
        self
    }

    /// True if it belongs to this network or this named pool.
    pub(crate) fn is_of(&self, name: &str) -> bool {
        self.network == Some(name)
            || self.pool == Some(name)
            || self
                .directory
                .is_some_and(|directory| directory.name.as_str() == name)
    }
}

/// The addresses of a record's last answer.
pub(crate) fn answered(record: &NetworkRecord) -> Vec<IpAddr> {
    let delegates = record.content().map(|content| &content.delegates);
    let mut answers = delegates.into_iter().flatten().rev();
    let answer = answers.find_map(|delegate| delegate.result.as_deref());
    let result = answer.and_then(|raw| IpamResult::read("result", raw).ok());
    let ips = result.iter().flat_map(|result| &result.ips);
    ips.map(cni::IpConfig::ip).collect()
}

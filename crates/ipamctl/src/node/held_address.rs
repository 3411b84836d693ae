//! A held address: its holder, and the holder's record.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::SystemTime;

use chain::record::ListedRecord;
use cni::{IpConfig, IpamResult};
use reservations::State;
use reservations::view::ListedAddress;
use serde::{Serialize, Serializer};

use crate::node::directory::Directory;
use crate::node::docker;
use crate::node::held_state::HeldState;
use crate::node::names::Names;
use crate::node::pools::PlacedPool;
use crate::output::times;

/// An address and its holder. The keys are documented, and don't change their meaning.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct HeldAddress<'a> {
    /// The address; `None` for a record without any.
    #[serde(rename = "address")]
    pub(crate) ip: Option<IpAddr>,
    /// The network; `None` if the file doesn't name it.
    pub(crate) network: Option<&'a str>,
    /// The name of the pool, if it has one.
    pub(crate) pool: Option<&'a str>,
    /// The node, of an address in a cluster's pool.
    pub(crate) node: Option<&'a str>,
    #[serde(rename = "containerID")]
    pub(crate) container: Option<&'a str>,
    pub(crate) ifname: Option<&'a str>,
    /// Time of the file's last change, or of the start of the ADD.
    #[serde(serialize_with = "times::serialize")]
    pub(crate) since: Option<SystemTime>,
    pub(crate) state: HeldState,
    /// The names of the container.
    pub(crate) names: Names,
    #[serde(serialize_with = "record_file")]
    pub(crate) record: Option<&'a ListedRecord>,
    /// The directory of the reservation; `None` for an address that is kept elsewhere.
    #[serde(skip)]
    pub(crate) directory: Option<&'a Directory>,
    /// Docker's answer about the attachment, if it is one of Docker.
    #[serde(skip)]
    pub(crate) docker: Option<docker::Holder>,
}

fn record_file<S: Serializer>(
    record: &Option<&ListedRecord>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let file = record.map(|record| record.file.display().to_string());
    file.serialize(serializer)
}

impl<'a> HeldAddress<'a> {
    /// The address of a reservation.
    pub(crate) fn reserved(
        directory: &'a Directory,
        listed: &'a ListedAddress,
        pool: Option<&'a PlacedPool>,
        record: Option<&'a ListedRecord>,
    ) -> Self {
        let network = listed.network.as_deref();
        // A directory with another name than the network's belongs to a named pool.
        let name = Some(directory.name.as_str());
        let of_directory = name.filter(|_| network.is_some() && network != name);
        let mut address = Self {
            ip: Some(listed.ip),
            network,
            pool: pool.map_or(of_directory, PlacedPool::name),
            since: listed.since,
            directory: Some(directory),
            ..Self::default()
        };
        address.state = match &listed.state {
            State::Reserved(holder) => {
                address.container = Some(&holder.container_id);
                address.ifname = holder.ifname.as_deref();
                record.map_or(HeldState::Reserved, HeldState::of)
            }
            State::BeingWritten => HeldState::BeingWritten,
            State::Torn => HeldState::Torn,
            State::Unreadable => HeldState::Unreadable,
        };
        address.recorded_in(record)
    }

    /// The addresses of a record that has no reservation: those of its answer that aren't lost, or
    /// one entry without an address.
    pub(crate) fn recorded(
        record: &'a ListedRecord,
        is_lost: impl Fn(IpAddr) -> bool,
    ) -> Vec<Self> {
        let content = record.content.as_ref().ok();
        let held = |ip| {
            let address = Self {
                ip,
                network: Some(record.network.as_str()),
                container: Some(record.attachment.container_id.as_str()),
                ifname: Some(record.attachment.ifname.as_str()),
                since: content.map(|content| content.added).or(record.changed),
                state: HeldState::of(record),
                ..Self::default()
            };
            address.recorded_in(Some(record))
        };
        let delegates = content.into_iter().flat_map(|content| &content.delegates);
        let mut answers = delegates.filter_map(|delegate| delegate.result.as_deref());
        let answer = answers.next_back();
        let result = answer.and_then(|raw| IpamResult::read("result", raw).ok());
        let ips = result.unwrap_or_default().ips;
        let mut ips: Vec<IpAddr> = ips.iter().map(IpConfig::ip).collect();
        ips.retain(|ip| !is_lost(*ip));
        if ips.is_empty() {
            return vec![held(None)];
        }
        ips.into_iter().map(|ip| held(Some(ip))).collect()
    }

    fn recorded_in(mut self, record: Option<&'a ListedRecord>) -> Self {
        self.record = record;
        if let Some(Ok(content)) = record.map(|record| &record.content) {
            self.names = Names::of(&content.args);
        }
        self
    }

    /// The address with Docker's answer about its attachment.
    pub(crate) fn known_to(mut self, docker: &docker::Docker) -> Self {
        let container = self.container;
        self.docker = container.and_then(|container| docker.holder(container, self.ip));
        if let Some(holder) = &self.docker {
            self.names = self.names.and(&holder.names);
        }
        self
    }

    /// The file of the reservation, or the path of the address in a cluster.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        Some(self.directory?.path_of(self.ip?))
    }

    /// True if it belongs to this network or this named pool.
    pub(crate) fn is_of(&self, name: &str) -> bool {
        let directory = self.directory.map(|directory| directory.name.as_str());
        [self.network, self.pool, directory].contains(&Some(name))
    }
}

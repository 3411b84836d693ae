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
    pub(crate) record: Option<&'a ListedRecord>,
    /// The directory of the reservation; `None` for an address that is kept elsewhere.
    #[serde(skip)]
    pub(crate) directory: Option<&'a Directory>,
    /// What Docker says of the attachment, if it was made for Docker.
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
        // A directory that isn't the network's is that of a named pool.
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

    /// The addresses of a record that are in no directory: those of its answer that aren't
    /// lost, or one without an address.
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
        let mut answers = content
            .into_iter()
            .flat_map(|content| content.delegates.iter().rev());
        let answer = answers.find_map(|delegate| delegate.result.as_deref());
        let result = answer.and_then(|raw| IpamResult::read("result", raw).ok());
        let ips = result
            .iter()
            .flat_map(|result| &result.ips)
            .map(IpConfig::ip);
        let found: Vec<Self> = ips
            .filter(|ip| !is_lost(*ip))
            .map(|ip| held(Some(ip)))
            .collect();
        if found.is_empty() {
            vec![held(None)]
        } else {
            found
        }
    }

    fn recorded_in(mut self, record: Option<&'a ListedRecord>) -> Self {
        self.record = record;
        if let Some(Ok(content)) = record.map(|record| &record.content) {
            self.names = Names::of(&content.args);
        }
        self
    }

    /// The address with what Docker says of its attachment.
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
        self.network == Some(name)
            || self.pool == Some(name)
            || self
                .directory
                .is_some_and(|directory| directory.name.as_str() == name)
    }
}

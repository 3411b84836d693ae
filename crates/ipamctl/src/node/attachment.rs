//! An attachment on a network, with all of its addresses.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::time::SystemTime;

use chain::record::{AttachmentRecord, ListedRecord};
use cni::Attachment;
use serde::{Serialize, Serializer};

use crate::node::docker;
use crate::node::held_address::HeldAddress;
use crate::node::names::Names;
use crate::output::joined;

/// A container's interface on a network; or one address that an old host-local has reserved for a
/// container without an interface. The keys are documented, and don't change their meaning.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct NetworkAttachment<'a> {
    pub(crate) network: &'a str,
    #[serde(rename = "containerID")]
    pub(crate) container: &'a str,
    pub(crate) ifname: Option<&'a str>,
    /// Its addresses, at least one entry; that of a record without addresses has no address.
    #[serde(serialize_with = "ips")]
    pub(crate) addresses: Vec<HeldAddress<'a>>,
    #[serde(skip)]
    pub(crate) record: Option<&'a ListedRecord>,
}

fn ips<S: Serializer>(addresses: &[HeldAddress<'_>], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(addresses.iter().filter_map(|address| address.ip))
}

/// The attachments that hold something, in the order of network and container.
pub(crate) fn attachments(addresses: Vec<HeldAddress<'_>>) -> Vec<NetworkAttachment<'_>> {
    let mut all: BTreeMap<_, NetworkAttachment<'_>> = BTreeMap::new();
    for address in addresses {
        let (Some(network), Some(container)) = (address.network, address.container) else {
            continue;
        };
        // Without an interface, the attachment of an address is unknown.
        let directory = address.directory.map(|directory| directory.path.as_path());
        let single = address.ifname.is_none().then_some((address.ip, directory));
        let key = (network, container, address.ifname, single);
        let attachment = all.entry(key).or_insert_with(|| NetworkAttachment {
            network,
            container,
            ifname: address.ifname,
            addresses: Vec::new(),
            record: address.record,
        });
        attachment.addresses.push(address);
    }
    all.into_values().collect()
}

impl NetworkAttachment<'_> {
    /// Its container and interface.
    ///
    /// # Errors
    ///
    /// The reason, if the reservation names no interface, or has an invalid name.
    pub(crate) fn attachment(&self) -> Result<Attachment, String> {
        let ifname = self.ifname.ok_or("its reservation names no interface")?;
        let wrong = |text: &str, what: &str, error| format!("{text:?} is not {what}: {error}");
        let id = self.container.parse();
        let parsed = ifname.parse();
        Ok(Attachment {
            container_id: id.map_err(|error| wrong(self.container, "a container ID", error))?,
            ifname: parsed.map_err(|error| wrong(ifname, "an interface name", error))?,
        })
    }

    /// Its addresses.
    pub(crate) fn ips(&self) -> impl Iterator<Item = IpAddr> {
        self.addresses.iter().filter_map(|address| address.ip)
    }

    /// True if it holds this address.
    pub(crate) fn holds(&self, ip: IpAddr) -> bool {
        self.ips().any(|held| held == ip)
    }

    /// True if a cluster keeps its addresses.
    pub(crate) fn is_shared(&self) -> bool {
        let mut directories = self.addresses.iter().filter_map(|held| held.directory);
        directories.any(|directory| directory.cluster.is_some())
    }

    /// The addresses in one text; `none` if there are none.
    pub(crate) fn ips_text(&self, none: &str) -> String {
        match joined(self.ips(), ", ") {
            text if text.is_empty() => none.to_owned(),
            text => text,
        }
    }

    /// Docker's answer about it, if it is an attachment of Docker.
    pub(crate) fn docker(&self) -> Option<&docker::Holder> {
        // Docker needs to have only one of the addresses.
        let holders = self
            .addresses
            .iter()
            .filter_map(|held| held.docker.as_ref());
        holders.min_by_key(|holder| holder.is_lost())
    }

    /// The content of its record, if it has a usable one.
    pub(crate) fn content(&self) -> Option<&AttachmentRecord> {
        self.record?.content.as_ref().ok()
    }

    /// The time of the last ADD, DEL or reservation; `None` if one of these times is unknown.
    pub(crate) fn last_change(&self) -> Option<SystemTime> {
        let reservations = self.addresses.iter().map(|address| address.since);
        let record = self.record.map(|record| record.changed);
        let calls = self.content().map(|content| Some(content.since()));
        let times: Option<Vec<SystemTime>> = reservations.chain(record).chain(calls).collect();
        times?.into_iter().max()
    }

    /// The names of its container.
    pub(crate) fn names(&self) -> &Names {
        &self.addresses[0].names
    }
}

/// `8f3e… eth0 on mynet`.
impl fmt::Display for NetworkAttachment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (container, network) = (self.container, self.network);
        match self.ifname {
            Some(ifname) => write!(f, "{container} {ifname} on {network}"),
            None => {
                let ips = self.ips_text("-");
                write!(f, "{container} (any interface) on {network} ({ips})")
            }
        }
    }
}

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

/// A container's interface on a network; or one address of a container as a whole, which an old
/// host-local has reserved without an interface. The keys are documented, and don't change their
/// meaning.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct NetworkAttachment<'a> {
    pub(crate) network: &'a str,
    #[serde(rename = "containerID")]
    pub(crate) container: &'a str,
    pub(crate) ifname: Option<&'a str>,
    /// Its addresses, at least one; a record without any is one without an address.
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
        // Without an interface, nothing says which attachment an address belongs to.
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
        Ok(Attachment {
            container_id: self
                .container
                .parse()
                .map_err(|e| format!("{:?} is not a container ID: {e}", self.container))?,
            ifname: ifname
                .parse()
                .map_err(|e| format!("{ifname:?} is not an interface name: {e}"))?,
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
        let mut directories = self
            .addresses
            .iter()
            .filter_map(|address| address.directory);
        directories.any(|directory| directory.shared_by.is_some())
    }

    /// The addresses in one text; `-` if there are none.
    pub(crate) fn ips_text(&self) -> String {
        let text = joined(self.ips(), ", ");
        if text.is_empty() {
            "-".to_owned()
        } else {
            text
        }
    }

    /// What Docker says of it, if it was made for Docker.
    pub(crate) fn docker(&self) -> Option<&docker::Holder> {
        // One address that Docker has is enough.
        let holders = self
            .addresses
            .iter()
            .filter_map(|address| address.docker.as_ref());
        holders.min_by_key(|holder| holder.is_lost())
    }

    /// The content of its record, if there is one that can be used.
    pub(crate) fn content(&self) -> Option<&AttachmentRecord> {
        self.record?.content.as_ref().ok()
    }

    /// The time of the last ADD, DEL or reservation. `None` if one of these times can't be
    /// read.
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
        match self.ifname {
            Some(ifname) => write!(f, "{} {ifname} on {}", self.container, self.network),
            None => write!(
                f,
                "{} (any interface) on {} ({})",
                self.container,
                self.network,
                self.ips_text()
            ),
        }
    }
}

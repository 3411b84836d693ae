//! The value of an address in every store is its [`Holder`]: an attachment with its node and its
//! machine, or an owner. An address that was read, with its holder and the identity of its creation, is
//! a [`Held`].

use std::fmt;
use std::time::SystemTime;

use cni::{Args, Attachment, IfName};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::{AddressKey, CallAttachment, Node};

/// The holder of an address: an attachment of a network, on a node; or an owner, instead of an
/// attachment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// What the address belongs to; `None` for an attachment.
    #[serde(flatten)]
    pub owner: Option<Owner>,
    /// The node's name; empty if there is an owner.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// ID of the machine that had the node's name; `None` if the engine proves which node calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Name of the CNI network.
    pub network: String,
    /// ID of the container or sandbox in its runtime; empty if there is an owner.
    #[serde(rename = "containerID", default)]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub container_id: String,
    /// The interface in the container.
    pub ifname: String,
    /// Name of the pool that gave the address.
    pub pool: String,
    /// Time of the ADD by the node's clock, RFC 3339 with nanoseconds. No rule compares times.
    pub since: String,
    /// The pod's namespace, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The pod, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// Keys that this version doesn't know.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// What an address belongs to: a workload, whose containers come and go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The text that a rule makes of facts, such as `statefulsets.apps/prod/db`.
    #[serde(rename = "owner")]
    pub name: String,
    /// Index of the address among those of an ADD, so that an owner may have several of one pool.
    pub place: usize,
}

impl Holder {
    /// The holder for an ADD that starts now. `args` is `CNI_ARGS`, which may name a pod.
    pub fn new(of: CallAttachment<'_>, pool: &str, args: &Args) -> Self {
        let text = |key| args.get(key).map(str::to_owned);
        Self {
            node: of.node.name.clone(),
            machine: of.node.machine.clone(),
            network: of.network.to_owned(),
            container_id: of.attachment.container_id.to_string(),
            ifname: of.attachment.ifname.to_string(),
            pool: pool.to_owned(),
            since: rfc3339(SystemTime::now()),
            namespace: text("K8S_POD_NAMESPACE"),
            pod: text("K8S_POD_NAME"),
            ..Self::default()
        }
    }

    /// The holder for the first ADD of an owner. Containers and nodes of an owner change, so none is
    /// in it.
    pub fn of_owner(owner: Owner, network: &str, ifname: &IfName, pool: &str) -> Self {
        Self {
            owner: Some(owner),
            network: network.to_owned(),
            ifname: ifname.to_string(),
            pool: pool.to_owned(),
            since: rfc3339(SystemTime::now()),
            ..Self::default()
        }
    }

    /// Hash of an owner's key: owner, network, interface and place. `None` for an attachment.
    pub fn owner_hash(&self) -> Option<String> {
        let Owner { name, place } = self.owner.as_ref()?;
        let place = place.to_string();
        Some(hash(&[name, &self.network, &self.ifname, &place]))
    }

    /// True for this attachment of this network, on any node.
    pub fn is_attachment(&self, network: &str, attachment: &Attachment) -> bool {
        self.owner.is_none()
            && self.network == network
            && self.container_id == attachment.container_id.as_str()
            && self.ifname == attachment.ifname.as_str()
    }

    /// True for this node and this machine.
    pub fn is_on(&self, node: &Node) -> bool {
        self.node == node.name && self.machine == node.machine
    }

    /// True if both are one attachment of one network, on one node and one machine, or one key of an
    /// owner.
    pub fn is_same(&self, other: &Self) -> bool {
        self.owner == other.owner
            && (&self.node, &self.machine) == (&other.node, &other.machine)
            && (&self.network, &self.ifname) == (&other.network, &other.ifname)
            && self.container_id == other.container_id
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = format!("{} of network {}", self.ifname, self.network);
        match &self.owner {
            Some(owner) => write!(f, "reserved to {} as {place}", owner.name),
            None => {
                let (id, node) = (&self.container_id, &self.node);
                write!(f, "reserved to {id} {place} on node {node}")
            }
        }
    }
}

/// The first half of the SHA-256 of texts without NUL, in hexadecimal digits.
pub fn hash(texts: &[&str]) -> String {
    let digest = Sha256::digest(texts.join("\0").as_bytes());
    hex::encode(&digest[..16])
}

/// A time as RFC 3339 with nanoseconds. Times before 1970 become 1970.
pub fn rfc3339(time: SystemTime) -> String {
    humantime::format_rfc3339_nanos(time.max(SystemTime::UNIX_EPOCH)).to_string()
}

/// An address as the store has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Its space and IP address.
    pub key: AddressKey,
    /// Its holder; `None` for content that isn't ours. DEL and GC never release that.
    pub holder: Option<Holder>,
    /// Identity of this creation of the name: an object's UID on Kubernetes, the value on etcd. A
    /// release names it, so a late one deletes no later reservation.
    pub id: String,
    /// Revision of its creation: of two creations, the lower one is the earlier.
    pub created: u64,
}

impl Held {
    /// The holder, for messages.
    pub fn describe(&self) -> String {
        match &self.holder {
            Some(holder) => holder.to_string(),
            None => "held by content that isn't ours".to_owned(),
        }
    }

    /// Logs its release with its pod, which GC has no `CNI_ARGS` to name.
    pub(crate) fn log_release(&self) {
        let (ip, holder) = (self.key.ip, self.holder.as_ref());
        let namespace = holder.and_then(|holder| holder.namespace.as_deref());
        let pod = holder.and_then(|holder| holder.pod.as_deref());
        tracing::debug!(%ip, namespace, pod, holder = self.describe(), "released");
    }

    /// True if the holder is the same as this one.
    pub fn is_of(&self, holder: &Holder) -> bool {
        let own = self.holder.as_ref();
        own.is_some_and(|own| own.is_same(holder))
    }
}

//! Keys of the objects that an engine keeps.

use std::net::IpAddr;

use cni::{Attachment, NetworkName};
use ipam::IpNet;

/// The key of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A pool's definition, by the pool's name.
    Pool(String),
    /// An address of a pool. Its value is a [`crate::Holder`].
    Address(String, IpAddr),
    /// The same address with the same value, by its holder: DEL and GC look for it. Engines with
    /// another index by holder don't store it.
    Held(HeldKey),
    /// A block of a pool. Its value is a [`crate::BlockOwner`].
    Block(String, IpNet),
    /// A node's [`crate::Registration`], by the node's name.
    Node(String),
    /// The mark of a node that has not run `ipamctl reconcile` since a restore.
    Mark(String),
    /// The last address of a pool's sticky key.
    StickyKey(String, String),
    /// The last sticky key of a pool's address.
    StickyAddress(String, IpAddr),
    /// A foreign object, by its name in the engine.
    Foreign(String),
}

/// An address that an attachment on a node holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HeldKey {
    /// The node.
    pub node: String,
    /// The network.
    pub network: NetworkName,
    /// The attachment.
    pub attachment: Attachment,
    /// The pool.
    pub pool: NetworkName,
    /// The address.
    pub ip: IpAddr,
}

impl HeldKey {
    /// The key of the address itself.
    pub fn address(&self) -> Key {
        Key::Address(self.pool.to_string(), self.ip)
    }
}

/// A group of objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Group {
    /// All definitions.
    Pools,
    /// The addresses of a pool, or of all pools.
    Addresses(Option<String>),
    /// The addresses that nodes hold.
    Held(Holding),
    /// The blocks of a pool, or of all pools.
    Blocks(Option<String>),
    /// The marks of all nodes.
    Marks,
    /// The sticky keys of a pool.
    StickyKeys(String),
    /// The registrations of all nodes.
    Nodes,
}

/// The addresses that nodes hold: all, or those of one node, network, attachment, pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holding {
    /// The node.
    pub node: Option<String>,
    /// The network on the node.
    pub network: Option<NetworkName>,
    /// The attachment on the network.
    pub attachment: Option<Attachment>,
    /// The pool of the attachment's addresses.
    pub pool: Option<String>,
}

impl Holding {
    /// The addresses of a node.
    pub fn of_node(node: &str) -> Self {
        Self {
            node: Some(node.to_owned()),
            ..Self::default()
        }
    }

    /// The addresses of a node on a network.
    pub fn on_network(node: &str, network: &NetworkName) -> Self {
        Self {
            network: Some(network.clone()),
            ..Self::of_node(node)
        }
    }

    /// The addresses of an attachment.
    pub fn of_attachment(node: &str, network: &NetworkName, attachment: &Attachment) -> Self {
        Self {
            attachment: Some(attachment.clone()),
            ..Self::on_network(node, network)
        }
    }

    /// The addresses of the attachment from one pool.
    #[must_use]
    pub fn from_pool(mut self, pool: &str) -> Self {
        self.pool = Some(pool.to_owned());
        self
    }
}

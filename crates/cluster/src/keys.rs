//! The keys: where a pool, an address, an attachment, a block stands.

use std::net::IpAddr;

use cni::{Attachment, NetworkName};
use ipam::IpNet;

/// The version of the keys' layout.
const VERSION: &str = "v1";

/// The keys below a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    /// `<prefix>/v1/`.
    root: String,
}

/// An address that a node holds, by the key that DEL and GC find it with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldKey {
    /// The network.
    pub network: NetworkName,
    /// The attachment.
    pub attachment: Attachment,
    /// The pool.
    pub pool: NetworkName,
    /// The address.
    pub ip: IpAddr,
}

impl Keys {
    /// The keys below this prefix, which doesn't end with a slash.
    pub fn new(prefix: &str) -> Self {
        Self {
            root: format!("{prefix}/{VERSION}/"),
        }
    }

    /// Start of all keys.
    pub fn root(&self) -> &str {
        &self.root
    }

    /// Start of the definitions of all pools.
    pub fn pools(&self) -> String {
        format!("{}pools/", self.root)
    }

    /// The definition of a pool.
    pub fn pool(&self, pool: &str) -> String {
        format!("{}pools/{pool}", self.root)
    }

    /// Start of the addresses of all pools.
    pub fn all_addresses(&self) -> String {
        format!("{}addresses/", self.root)
    }

    /// Start of a pool's addresses.
    pub fn addresses(&self, pool: &str) -> String {
        format!("{}addresses/{pool}/", self.root)
    }

    /// An address.
    pub fn address(&self, pool: &str, ip: IpAddr) -> String {
        format!("{}addresses/{pool}/{ip}", self.root)
    }

    /// Start of all that nodes hold.
    pub fn nodes(&self) -> String {
        format!("{}nodes/", self.root)
    }

    /// Start of all that a node holds.
    pub fn node(&self, node: &str) -> String {
        format!("{}nodes/{node}/", self.root)
    }

    /// Start of what a node holds on a network.
    pub fn network(&self, node: &str, network: &str) -> String {
        format!("{}nodes/{node}/{network}/", self.root)
    }

    /// Start of what an attachment holds.
    pub fn attachment(&self, node: &str, network: &str, attachment: &Attachment) -> String {
        let Attachment {
            container_id,
            ifname,
        } = attachment;
        format!(
            "{}nodes/{node}/{network}/{container_id}:{ifname}/",
            self.root
        )
    }

    /// Start of what an attachment holds of a pool.
    pub fn attachment_in(
        &self,
        node: &str,
        network: &str,
        attachment: &Attachment,
        pool: &str,
    ) -> String {
        format!("{}{pool}/", self.attachment(node, network, attachment))
    }

    /// An address that an attachment holds.
    pub fn held(
        &self,
        node: &str,
        network: &str,
        attachment: &Attachment,
        pool: &str,
        ip: IpAddr,
    ) -> String {
        format!("{}{pool}/{ip}", self.attachment(node, network, attachment))
    }

    /// Reads a key below [`Self::node`]; `None` if it is none of ours.
    pub fn parse_held(&self, node: &str, key: &[u8]) -> Option<HeldKey> {
        let rest = str::from_utf8(key).ok()?.strip_prefix(&self.node(node))?;
        let mut parts = rest.split('/');
        let mut next = || parts.next();
        let (network, attachment, pool, ip) = (next()?, next()?, next()?, next()?);
        let (container_id, ifname) = attachment.split_once(':')?;
        let held = HeldKey {
            network: network.parse().ok()?,
            attachment: Attachment {
                container_id: container_id.parse().ok()?,
                ifname: ifname.parse().ok()?,
            },
            pool: pool.parse().ok()?,
            ip: ip.parse().ok()?,
        };
        parts.next().is_none().then_some(held)
    }

    /// Reads a key below [`Self::addresses`]; `None` if it is no address as we write it.
    pub fn parse_address(&self, pool: &str, key: &[u8]) -> Option<IpAddr> {
        let text = str::from_utf8(key)
            .ok()?
            .strip_prefix(&self.addresses(pool))?;
        let ip: IpAddr = text.parse().ok()?;
        // Another spelling is another key.
        (ip.to_string() == text).then_some(ip)
    }

    /// Start of the blocks of all pools.
    pub fn all_blocks(&self) -> String {
        format!("{}blocks/", self.root)
    }

    /// Start of a pool's blocks.
    pub fn blocks(&self, pool: &str) -> String {
        format!("{}blocks/{pool}/", self.root)
    }

    /// A block.
    pub fn block(&self, pool: &str, block: IpNet) -> String {
        format!("{}blocks/{pool}/{block}", self.root)
    }

    /// Reads a key below [`Self::blocks`]; `None` if it is no block as we write it.
    pub fn parse_block(&self, pool: &str, key: &[u8]) -> Option<IpNet> {
        let text = str::from_utf8(key).ok()?.strip_prefix(&self.blocks(pool))?;
        let block: IpNet = text.parse().ok()?;
        (block.to_string() == text && block.trunc() == block).then_some(block)
    }

    /// The token of a node's disk.
    pub fn token(&self, node: &str) -> String {
        format!("{}tokens/{node}", self.root)
    }

    /// Start of the marks of nodes that have to say what lives there.
    pub fn reconciles(&self) -> String {
        format!("{}reconcile/", self.root)
    }

    /// The mark of a node that has to say what lives there.
    pub fn reconcile(&self, node: &str) -> String {
        format!("{}reconcile/{node}", self.root)
    }

    /// Reads a key below [`Self::reconciles`].
    pub fn parse_reconcile<'k>(&self, key: &'k [u8]) -> Option<&'k str> {
        str::from_utf8(key).ok()?.strip_prefix(&self.reconciles())
    }

    /// Start of a pool's sticky keys.
    pub fn sticky_keys(&self, pool: &str) -> String {
        format!("{}sticky/{pool}/keys/", self.root)
    }

    /// The address that a sticky key was given last.
    pub fn sticky_key(&self, pool: &str, key: &str) -> String {
        format!("{}sticky/{pool}/keys/{key}", self.root)
    }

    /// The sticky key that was given this address last.
    pub fn sticky_address(&self, pool: &str, ip: IpAddr) -> String {
        format!("{}sticky/{pool}/addresses/{ip}", self.root)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn attachment(container_id: &str, ifname: &str) -> Attachment {
        Attachment {
            container_id: container_id.parse().unwrap(),
            ifname: ifname.parse().unwrap(),
        }
    }

    #[test]
    fn the_keys_are_those_of_the_contract() {
        let keys = Keys::new("/ipam");
        let ip = "fd00::5".parse().unwrap();
        assert_eq!(keys.pool("blue"), "/ipam/v1/pools/blue");
        assert_eq!(keys.address("blue", ip), "/ipam/v1/addresses/blue/fd00::5");
        assert_eq!(
            keys.held("n1", "net", &attachment("c1", "eth0"), "blue", ip),
            "/ipam/v1/nodes/n1/net/c1:eth0/blue/fd00::5"
        );
        let block = "10.0.0.64/26".parse().unwrap();
        assert_eq!(
            keys.block("blue", block),
            "/ipam/v1/blocks/blue/10.0.0.64/26"
        );
    }

    #[test]
    fn a_foreign_key_is_none() {
        let keys = Keys::new("/ipam");
        for rest in [
            "",
            "net",
            "net/c1:eth0/blue",
            "net/c1/blue/10.0.0.1",
            "net/c1:eth0/blue/x",
            "net/c1:eth0/blue/10.0.0.1/x",
        ] {
            let key = format!("{}{rest}", keys.node("n1"));
            assert_eq!(keys.parse_held("n1", key.as_bytes()), None, "{rest}");
        }
        for text in ["x", "010.0.0.1", "fd00:0::5", "10.0.0.1/32"] {
            let key = format!("{}{text}", keys.addresses("blue"));
            assert_eq!(keys.parse_address("blue", key.as_bytes()), None, "{text}");
        }
        for text in ["10.0.0.0", "10.0.0.1/26", "x/26"] {
            let key = format!("{}{text}", keys.blocks("blue"));
            assert_eq!(keys.parse_block("blue", key.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_key_is_read_back(
            (container, ifname) in ("[A-Za-z0-9][A-Za-z0-9_.-]{0,20}", "[a-z][a-z0-9.@-]{0,14}"),
            (node, network, pool) in ("[a-z][a-z0-9.-]{0,9}", "[a-z][a-z0-9.-]{0,9}", "[a-z][a-z0-9.-]{0,9}"),
            ip in any::<IpAddr>(),
        ) {
            let keys = Keys::new("/a/b");
            let attachment = attachment(&container, &ifname);
            let key = keys.held(&node, &network, &attachment, &pool, ip);
            let held = keys.parse_held(&node, key.as_bytes()).unwrap();
            prop_assert_eq!((held.attachment, held.ip), (attachment, ip));
            prop_assert_eq!((held.network.as_str(), held.pool.as_str()), (&*network, &*pool));
            let key = keys.address(&pool, ip);
            prop_assert_eq!(keys.parse_address(&pool, key.as_bytes()), Some(ip));
        }
    }
}

//! Layout of the keys in etcd.

use std::net::IpAddr;

use cluster::{Group, HeldKey, Holding, Key};
use cni::Attachment;
use ipam::IpNet;

/// Version of the layout.
const VERSION: &str = "v1";

/// The keys below a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    /// `<prefix>/v1/`.
    root: String,
}

impl Keys {
    /// The keys below `prefix`, which doesn't end with a slash.
    pub fn new(prefix: &str) -> Self {
        Self {
            root: format!("{prefix}/{VERSION}/"),
        }
    }

    /// Common prefix of all keys.
    pub fn root(&self) -> &str {
        &self.root
    }

    /// The key of an object.
    pub fn key(&self, key: &Key) -> String {
        let root = &self.root;
        match key {
            Key::Pool(pool) => format!("{root}pools/{pool}"),
            Key::Address(pool, ip) => format!("{root}addresses/{pool}/{ip}"),
            Key::Held(held) => {
                let below = attachment(&held.attachment);
                let (node, network, pool) = (&held.node, &held.network, &held.pool);
                format!("{root}nodes/{node}/{network}/{below}/{pool}/{}", held.ip)
            }
            Key::Block(pool, cidr) => format!("{root}blocks/{pool}/{cidr}"),
            Key::Node(node) => format!("{root}tokens/{node}"),
            Key::Mark(node) => format!("{root}reconcile/{node}"),
            Key::StickyKey(pool, key) => format!("{root}sticky/{pool}/keys/{key}"),
            Key::StickyAddress(pool, ip) => format!("{root}sticky/{pool}/addresses/{ip}"),
            Key::Foreign(path) => path.clone(),
        }
    }

    /// Common prefix of the keys of a group.
    pub fn prefix(&self, group: &Group) -> String {
        let root = &self.root;
        let of_pool = |kind: &str, pool: &Option<String>| match pool {
            Some(pool) => format!("{root}{kind}/{pool}/"),
            None => format!("{root}{kind}/"),
        };
        match group {
            Group::Pools => format!("{root}pools/"),
            Group::Addresses(pool) => of_pool("addresses", pool),
            Group::Held(holding) => self.holding(holding),
            Group::Blocks(pool) => of_pool("blocks", pool),
            Group::Marks => format!("{root}reconcile/"),
            Group::StickyKeys(pool) => format!("{root}sticky/{pool}/keys/"),
            Group::Nodes => format!("{root}tokens/"),
        }
    }

    fn holding(&self, holding: &Holding) -> String {
        let mut prefix = format!("{}nodes/", self.root);
        let network = holding.network.as_ref().map(ToString::to_string);
        let attachment = holding.attachment.as_ref().map(attachment);
        let parts = [
            holding.node.clone(),
            network,
            attachment,
            holding.pool.clone(),
        ];
        for part in parts.into_iter().flatten() {
            prefix += &part;
            prefix.push('/');
        }
        prefix
    }

    /// Reads a key; [`Key::Foreign`] if it isn't one that we write.
    pub fn parse(&self, key: &[u8]) -> Key {
        let text = String::from_utf8_lossy(key);
        let read = str::from_utf8(key).ok().and_then(|text| self.read(text));
        // A key that is spelled differently is a different key.
        match read {
            Some(read) if self.key(&read) == text => read,
            _ => Key::Foreign(text.into_owned()),
        }
    }

    fn read(&self, text: &str) -> Option<Key> {
        let (kind, rest) = text.strip_prefix(&self.root)?.split_once('/')?;
        let of_pool = || rest.split_once('/');
        Some(match kind {
            "pools" => Key::Pool(rest.to_owned()),
            "addresses" => {
                let (pool, ip) = of_pool()?;
                Key::Address(pool.to_owned(), ip.parse().ok()?)
            }
            "nodes" => Key::Held(held(rest)?),
            "blocks" => {
                let (pool, cidr) = of_pool()?;
                let cidr: IpNet = cidr.parse().ok()?;
                Key::Block(
                    pool.to_owned(),
                    Some(cidr).filter(|net| net.trunc() == *net)?,
                )
            }
            "tokens" => Key::Node(rest.to_owned()),
            "reconcile" => Key::Mark(rest.to_owned()),
            "sticky" => match of_pool()? {
                (pool, below) if below.starts_with("keys/") => {
                    Key::StickyKey(pool.to_owned(), below["keys/".len()..].to_owned())
                }
                (pool, below) => {
                    let ip: IpAddr = below.strip_prefix("addresses/")?.parse().ok()?;
                    Key::StickyAddress(pool.to_owned(), ip)
                }
            },
            _ => return None,
        })
    }
}

/// An attachment as a part of a key.
fn attachment(attachment: &Attachment) -> String {
    format!("{}:{}", attachment.container_id, attachment.ifname)
}

fn held(rest: &str) -> Option<HeldKey> {
    let parts: Vec<&str> = rest.split('/').collect();
    let [node, network, attachment, pool, ip] = parts[..] else {
        return None;
    };
    let (container_id, ifname) = attachment.split_once(':')?;
    Some(HeldKey {
        node: node.to_owned(),
        network: network.parse().ok()?,
        attachment: Attachment {
            container_id: container_id.parse().ok()?,
            ifname: ifname.parse().ok()?,
        },
        pool: pool.parse().ok()?,
        ip: ip.parse().ok()?,
    })
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
        let ip: IpAddr = "fd00::5".parse().unwrap();
        let held = HeldKey {
            node: "n1".to_owned(),
            network: "net".parse().unwrap(),
            attachment: attachment("c1", "eth0"),
            pool: "blue".parse().unwrap(),
            ip,
        };
        let block = "10.0.0.64/26".parse().unwrap();
        for (key, text) in [
            (Key::Pool("blue".into()), "pools/blue"),
            (held.address(), "addresses/blue/fd00::5"),
            (Key::Held(held), "nodes/n1/net/c1:eth0/blue/fd00::5"),
            (Key::Block("blue".into(), block), "blocks/blue/10.0.0.64/26"),
            (Key::Node("n1".into()), "tokens/n1"),
            (Key::Mark("n1".into()), "reconcile/n1"),
            (
                Key::StickyKey("blue".into(), "a/b c".into()),
                "sticky/blue/keys/a/b c",
            ),
            (
                Key::StickyAddress("blue".into(), ip),
                "sticky/blue/addresses/fd00::5",
            ),
        ] {
            let text = format!("/ipam/v1/{text}");
            assert_eq!(keys.key(&key), text);
            assert_eq!(keys.parse(text.as_bytes()), key);
        }
        let network = "net".parse().unwrap();
        let holding = Holding::of_attachment("n1", &network, &attachment("c1", "eth0"));
        assert_eq!(
            keys.prefix(&Group::Held(holding.from_pool("blue"))),
            "/ipam/v1/nodes/n1/net/c1:eth0/blue/"
        );
    }

    #[test]
    fn a_foreign_key_is_foreign() {
        let keys = Keys::new("/ipam");
        for rest in [
            "",
            "x",
            "nodes/n1/",
            "nodes/n1/net",
            "nodes/n1/net/c1:eth0/blue",
            "nodes/n1/net/c1/blue/10.0.0.1",
            "nodes/n1/net/c1:eth0/blue/x",
            "nodes/n1/net/c1:eth0/blue/10.0.0.1/x",
            "addresses/blue/x",
            "addresses/blue/010.0.0.1",
            "addresses/blue/fd00:0::5",
            "addresses/blue/10.0.0.1/32",
            "blocks/blue/10.0.0.0",
            "blocks/blue/10.0.0.1/26",
            "blocks/blue/x/26",
        ] {
            let text = format!("/ipam/v1/{rest}");
            assert_eq!(keys.parse(text.as_bytes()), Key::Foreign(text), "{rest}");
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
            let held = HeldKey {
                node,
                network: network.parse().unwrap(),
                attachment: attachment(&container, &ifname),
                pool: pool.parse().unwrap(),
                ip,
            };
            for key in [held.address(), Key::Held(held)] {
                prop_assert_eq!(keys.parse(keys.key(&key).as_bytes()), key);
            }
        }
    }
}

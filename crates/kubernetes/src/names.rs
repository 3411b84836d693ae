//! Names of the API's objects. Each key of the cluster's rules has one object.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};

use cluster::Key;
use ipam::{Interval, IpNet};
use sha2::{Digest, Sha256};

use crate::Resource;

/// The restore that exists as long as any other restore does. An ADD reads only this one.
pub(crate) const ANY_RESTORE: &str = "cluster";

/// The restore that exists while pools are imported.
pub(crate) const IMPORT: &str = "import";

/// The restore that exists while the restores of nodes are being written.
const BEGINNING: &str = "begin";

/// First character of the key of a mark that names no node.
const OF_NO_NODE: char = '.';

/// First part of the name of a node's restore.
const OF_NODE: &str = "node.";

/// Most prefixes of a selector: they fit into a URL, and a /16 has as many.
const MOST_PREFIXES: usize = 256;

/// Hexadecimal digits of a hash in a name or a label.
const HASH: usize = 32;

/// The kind and name of a key's object; `None` for a foreign key.
pub(crate) fn object_of(key: &Key) -> Option<(Resource, String)> {
    Some(match key {
        Key::Pool(pool) => (Resource::Pool, pool.clone()),
        Key::Address(pool, ip) => (Resource::Address, address(pool, *ip)),
        Key::Held(held) => (Resource::Address, address(held.pool.as_str(), held.ip)),
        Key::Block(pool, cidr) => (Resource::Block, block(pool, *cidr)),
        Key::Node(node) => (Resource::IpamNode, node.clone()),
        Key::Mark(mark) => (
            Resource::Restore,
            match mark.strip_prefix(OF_NO_NODE) {
                Some(name) => name.to_owned(),
                None => format!("{OF_NODE}{mark}"),
            },
        ),
        Key::StickyKey(pool, key) => (Resource::StickyKey, format!("{pool}.{}", hash(&[key]))),
        Key::StickyAddress(pool, ip) => (Resource::StickyAddress, address(pool, *ip)),
        Key::Foreign(_) => return None,
    })
}

/// The key of an object; `None` if its name isn't one of ours. A sticky key's object has only a
/// hash of the key in its name.
pub(crate) fn key_of(kind: Resource, name: &str) -> Option<Key> {
    let key = match kind {
        Resource::Pool => Key::Pool(name.to_owned()),
        Resource::Address => {
            let (pool, ip) = split(name)?;
            Key::Address(pool.to_owned(), parse_ip(ip)?)
        }
        Resource::StickyAddress => {
            let (pool, ip) = split(name)?;
            Key::StickyAddress(pool.to_owned(), parse_ip(ip)?)
        }
        Resource::Block => {
            let (start, length) = name.rsplit_once('-')?;
            let (pool, ip) = split(start)?;
            let cidr = IpNet::new(parse_ip(ip)?, length.parse().ok()?).ok()?;
            Key::Block(pool.to_owned(), cidr)
        }
        Resource::IpamNode => Key::Node(name.to_owned()),
        Resource::Restore => Key::Mark(match name.strip_prefix(OF_NODE) {
            Some(node) => node.to_owned(),
            None if [BEGINNING, IMPORT].contains(&name) => format!("{OF_NO_NODE}{name}"),
            None => return None,
        }),
        Resource::StickyKey => return None,
    };
    // A name that is spelled differently is a different object.
    let is_ours = object_of(&key).is_some_and(|(_, ours)| ours == name);
    is_ours.then_some(key)
}

/// A hash of these texts, for a name or a label.
pub(crate) fn hash(texts: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for text in texts {
        hasher.update(text.as_bytes());
        hasher.update([0]);
    }
    let digest = hasher.finalize();
    let digits = digest.iter().map(|byte| format!("{byte:02x}"));
    digits.collect::<String>()[..HASH].to_owned()
}

/// The part of an address that its label `prefix` has: `10.0.0.0-24`, or for IPv6
/// `fd00-0-0-0-0-0-0-0-64`.
pub(crate) fn prefix(ip: IpAddr) -> String {
    prefix_part(network(ip))
}

/// The prefixes of these addresses, each once; `None` if they are too many for a selector.
pub(crate) fn prefixes(intervals: impl Iterator<Item = Interval>) -> Option<BTreeSet<String>> {
    let mut prefixes = BTreeSet::new();
    for interval in intervals {
        let mut rest = Some(interval);
        while let Some(addresses) = rest {
            let network = network(addresses.first());
            prefixes.insert(prefix_part(network));
            if prefixes.len() > MOST_PREFIXES {
                return None;
            }
            rest = addresses.after(network.broadcast());
        }
    }
    Some(prefixes)
}

/// The /24 of an IPv4 address, the /64 of an IPv6 address.
fn network(ip: IpAddr) -> IpNet {
    let length = if ip.is_ipv4() { 24 } else { 64 };
    IpNet::new_assert(ip, length).trunc()
}

fn prefix_part(network: IpNet) -> String {
    format!("{}-{}", ip_part(network.addr()), network.prefix_len())
}

fn address(pool: &str, ip: IpAddr) -> String {
    format!("{pool}.{}", ip_part(ip))
}

fn block(pool: &str, cidr: IpNet) -> String {
    format!("{pool}.{}", prefix_part(cidr))
}

/// An address as a part of a name. A name can't contain colons, and none of its parts can begin
/// with a dash, so an IPv6 address is written with all of its eight groups.
fn ip_part(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => ip.segments().map(|group| format!("{group:x}")).join("-"),
    }
}

fn parse_ip(part: &str) -> Option<IpAddr> {
    if part.contains('.') {
        return part.parse().ok();
    }
    let groups: Option<Vec<u16>> = part
        .split('-')
        .map(|group| u16::from_str_radix(group, 16).ok())
        .collect();
    let groups: [u16; 8] = groups?.try_into().ok()?;
    Some(Ipv6Addr::from(groups).into())
}

/// Splits a name into the pool's name and the address: the last part of the name, or the last
/// four.
fn split(name: &str) -> Option<(&str, &str)> {
    let (pool, last) = name.rsplit_once('.')?;
    if last.contains('-') {
        return Some((pool, last));
    }
    let (at, _) = name.rmatch_indices('.').nth(3)?;
    Some((&name[..at], &name[at + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_names_are_those_of_the_contract() {
        let [v4, v6]: [IpAddr; 2] = ["10.0.0.5", "fd00::5"].map(|ip| ip.parse().unwrap());
        for (key, name) in [
            (Key::Pool("blue".into()), "blue"),
            (Key::Address("blue".into(), v4), "blue.10.0.0.5"),
            (Key::Address("a.b".into(), v6), "a.b.fd00-0-0-0-0-0-0-5"),
            (Key::StickyAddress("blue".into(), v4), "blue.10.0.0.5"),
            (
                Key::Block("blue".into(), "10.0.0.64/26".parse().unwrap()),
                "blue.10.0.0.64-26",
            ),
            (
                Key::Block("blue".into(), "fd00::/64".parse().unwrap()),
                "blue.fd00-0-0-0-0-0-0-0-64",
            ),
            (Key::Node("n1.example".into()), "n1.example"),
            (Key::Mark("n1".into()), "node.n1"),
            (Key::Mark(".begin".into()), "begin"),
            (Key::Mark(".import".into()), "import"),
        ] {
            let (kind, found) = object_of(&key).unwrap();
            assert_eq!(found, name);
            assert_eq!(key_of(kind, name), Some(key));
        }
        let (_, name) = object_of(&Key::StickyKey("blue".into(), "a/b c".into())).unwrap();
        assert_eq!(name.len(), "blue.".len() + HASH);
    }

    #[test]
    fn a_name_that_is_spelled_differently_is_not_ours() {
        for name in [
            "blue",
            "blue.10.0.0",
            "10.0.0.5",
            "blue.10.0.0.05",
            "blue.fd00-0-0-0-0-0-0-05",
            "blue.fd00--5",
            "blue.x-0-0-0-0-0-0-5",
        ] {
            assert_eq!(key_of(Resource::Address, name), None, "{name}");
        }
        for name in ["blue.10.0.0.0", "blue.10.0.0.0-33", "blue.10.0.0.0-x"] {
            assert_eq!(key_of(Resource::Block, name), None, "{name}");
        }
        for name in [ANY_RESTORE, "n1", ""] {
            assert_eq!(key_of(Resource::Restore, name), None, "{name}");
        }
    }

    #[test]
    fn the_prefixes_of_an_interval_are_those_of_its_addresses() {
        let of = |first: &str, last: &str| {
            let [first, last] = [first, last].map(|ip| ip.parse().unwrap());
            prefixes(Interval::new(first, last).into_iter())
        };
        let listed = of("10.0.0.200", "10.0.2.0").unwrap();
        let expected = ["10.0.0.0-24", "10.0.1.0-24", "10.0.2.0-24"];
        assert_eq!(Vec::from_iter(&listed), expected.each_ref());
        assert!(listed.contains(&prefix("10.0.1.255".parse().unwrap())));
        let all = of("255.255.0.0", "255.255.255.255").unwrap();
        assert_eq!((all.len(), of("10.0.0.0", "10.1.0.0")), (256, None));
        let v6 = of("fd00::5", "fd00::1:0:0:0:1").unwrap();
        let expected = ["fd00-0-0-0-0-0-0-0-64", "fd00-0-0-1-0-0-0-0-64"];
        assert_eq!(Vec::from_iter(&v6), expected.each_ref());
        assert_eq!(of("fd00::", "fdff::"), None);
    }

    proptest! {
        #[test]
        fn every_name_is_read_back(pool in "[a-z0-9]([a-z0-9.]{0,9}[a-z0-9])?", ip: IpAddr, length in 0u8..=32) {
            let cidr = IpNet::new(ip, length).unwrap().trunc();
            for key in [Key::Address(pool.clone(), ip), Key::Block(pool, cidr)] {
                let (kind, name) = object_of(&key).unwrap();
                prop_assert_eq!(key_of(kind, &name), Some(key));
            }
        }
    }
}

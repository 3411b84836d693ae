//! Layout of the keys in etcd, which the crate's opening lists. An address has one spelling, in fixed
//! width, so the addresses of a range are an interval of keys, and a key with another spelling is no
//! address.

use std::net::{IpAddr, Ipv4Addr};

use cluster::{AddressKey, Holder};
use ipam::{Interval, Pool};

use crate::Range;

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
            root: format!("{prefix}/v1/"),
        }
    }

    /// Common prefix of all definitions.
    pub fn pools(&self) -> String {
        format!("{}pools/", self.root)
    }

    /// The key of a pool's definition.
    pub fn pool(&self, name: &str) -> String {
        self.pools() + name
    }

    /// Common prefix of all addresses.
    pub fn addresses(&self) -> String {
        format!("{}addresses/", self.root)
    }

    /// The key of an address.
    pub fn address(&self, key: &AddressKey) -> String {
        self.addresses() + &name(key)
    }

    /// Common prefix of a node's addresses.
    pub fn node(&self, node: &str) -> String {
        format!("{}nodes/{node}/", self.root)
    }

    /// Common prefix of the addresses of an owner's key, by its hash.
    pub fn owner(&self, hash: &str) -> String {
        format!("{}owners/{hash}/", self.root)
    }

    /// The key by which an address is found as a node's.
    pub fn of_node(&self, node: &str, key: &AddressKey) -> String {
        self.node(node) + &name(key)
    }

    /// The key by which an address is found as its owner's, or else as its node's.
    pub fn of_holder(&self, holder: &Holder, key: &AddressKey) -> String {
        match holder.owner_hash() {
            Some(hash) => self.owner(&hash) + &name(key),
            None => self.of_node(&holder.node, key),
        }
    }

    /// The keys of a pool's addresses: an interval for each range.
    pub fn taken(&self, pool: &Pool) -> Vec<Range> {
        let address = |ip| self.address(&AddressKey::of(pool, ip));
        let interval = |given: Interval| Range {
            key: address(given.first()).into_bytes(),
            // The key behind the last address.
            range_end: (address(given.last()) + "\0").into_bytes(),
            keys_only: true,
            ..Range::default()
        };
        pool.ranges.given().map(interval).collect()
    }

    /// Reads the part of a key behind [`Self::addresses`], [`Self::node`] or [`Self::owner`]; `None` if it is
    /// spelled differently from ours.
    pub fn parse(key: &[u8], prefix: &str) -> Option<AddressKey> {
        let text = str::from_utf8(key).ok()?.strip_prefix(prefix)?;
        let (space, ip) = match text.split_once('/') {
            Some((space, ip)) => (Some(space.parse().ok()?), ip),
            None => (None, text),
        };
        let ip = parse_ip(ip)?;
        let parsed = AddressKey { space, ip };
        (name(&parsed) == text).then_some(parsed)
    }
}

/// `[<space>/]<ip>`, with the address in fixed width.
fn name(key: &AddressKey) -> String {
    let ip = match key.ip {
        IpAddr::V4(ip) => ip.octets().map(|octet| format!("{octet:03}")).join("."),
        IpAddr::V6(ip) => ip.segments().map(|part| format!("{part:04x}")).join(":"),
    };
    match &key.space {
        Some(space) => format!("{space}/{ip}"),
        None => ip,
    }
}

fn parse_ip(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        return text.parse().ok();
    }
    let octets: Result<Vec<u8>, _> = text.split('.').map(str::parse).collect();
    let octets: [u8; 4] = octets.ok()?.try_into().ok()?;
    Some(Ipv4Addr::from(octets).into())
}

#[cfg(test)]
mod tests {
    use cni::NetworkName;
    use proptest::prelude::*;

    use super::*;

    fn spaces() -> impl Strategy<Value = Option<NetworkName>> {
        let names = proptest::option::of("[a-z0-9][a-z0-9.]{0,6}");
        names.prop_map(|name| name.map(|name| name.parse().unwrap()))
    }

    proptest! {
        #[test]
        fn a_key_is_read_as_what_was_written_and_keys_sort_as_addresses(
            space in spaces(), bits in any::<[u128; 2]>(), v4 in any::<bool>()
        ) {
            let [one, other] = bits.map(|bits| match v4 {
                #[expect(clippy::cast_possible_truncation, reason = "IPv4 has 32 bits")]
                true => IpAddr::from(Ipv4Addr::from_bits(bits as u32)),
                false => IpAddr::from(std::net::Ipv6Addr::from_bits(bits)),
            });
            let keys = Keys::new("/ipam");
            let key = |ip| AddressKey { space: space.clone(), ip };
            let [first, second] = [one, other].map(|ip| keys.address(&key(ip)));
            prop_assert_eq!(first.cmp(&second), one.cmp(&other));
            prop_assert_eq!(Keys::parse(first.as_bytes(), &keys.addresses()), Some(key(one)));
        }
    }

    #[test]
    fn an_address_has_a_fixed_width() {
        let keys = Keys::new("/ipam");
        let key = |ip: &str, space: Option<&str>| AddressKey {
            space: space.map(|space| space.parse().unwrap()),
            ip: ip.parse().unwrap(),
        };
        assert_eq!(
            keys.address(&key("10.0.0.5", None)),
            "/ipam/v1/addresses/010.000.000.005"
        );
        let holder = |json: &str| serde_json::from_str::<Holder>(json).unwrap();
        let rest = r#""network":"net","ifname":"eth0","pool":"p","since":""}"#;
        let of_node = holder(&format!(r#"{{"node":"n1","containerID":"c1",{rest}"#));
        assert_eq!(
            keys.of_holder(&of_node, &key("fd00::5", Some("blue"))),
            "/ipam/v1/nodes/n1/blue/fd00:0000:0000:0000:0000:0000:0000:0005"
        );
        let of_owner = holder(&format!(r#"{{"owner":"vm","place":0,{rest}"#));
        assert_eq!(
            keys.of_holder(&of_owner, &key("10.0.0.5", None)),
            "/ipam/v1/owners/e718f79ad9205adb890707d58ec957b7/010.000.000.005"
        );
        for foreign in [
            "10.0.0.5",
            "010.000.000.256",
            "fd00::5",
            "a/b/010.000.000.005",
            "",
        ] {
            let key = keys.addresses() + foreign;
            assert_eq!(
                Keys::parse(key.as_bytes(), &keys.addresses()),
                None,
                "{foreign}"
            );
        }
    }
}

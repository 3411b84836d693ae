//! Entries of an index: a taken address and a hash of its holder.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

/// A container, as the index knows it: a hash of its ID. The reservation's file verifies
/// each match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct HolderKey(pub(super) u64);

impl HolderKey {
    /// The key of an unknown holder.
    pub(crate) const UNKNOWN: Self = Self(0);

    /// FNV-1a, 64 bits: the same in every build, which the standard library's hashes
    /// need not be. Then mixed, so that IDs which differ only at their ends are spread.
    pub(crate) fn of(container_id: &str) -> Self {
        let hash = container_id
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
            });
        let mixed = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self((mixed ^ (mixed >> 32)).max(1))
    }
}

/// A taken address, and its holder.
pub(crate) type Entry = (IpAddr, HolderKey);

/// Family and bits of an address. An IPv6 address that embeds an IPv4 one is IPv6.
pub(super) fn bits_of(ip: IpAddr) -> (u64, u128) {
    match ip {
        IpAddr::V4(v4) => (4, v4.to_bits().into()),
        IpAddr::V6(v6) => (6, v6.to_bits()),
    }
}

/// The address of this family with these bits.
pub(super) fn ip_of(family: u64, bits: u128) -> Option<IpAddr> {
    match family {
        4 => Some(Ipv4Addr::from_bits(u32::try_from(bits).ok()?).into()),
        6 => Some(Ipv6Addr::from_bits(bits).into()),
        _ => None,
    }
}

/// The next address of the family, if there is one.
pub(super) fn successor(ip: IpAddr) -> Option<IpAddr> {
    let (family, bits) = bits_of(ip);
    ip_of(family, bits.checked_add(1)?)
}

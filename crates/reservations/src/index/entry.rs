//! Entries of an index, and the encoding of addresses and numbers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A container, as the index knows it: a hash of its ID. The reservation's file verifies
/// each match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HolderKey(pub(super) u64);

impl HolderKey {
    /// Of a taken address whose holder isn't known.
    pub(crate) const UNKNOWN: Self = Self(0);

    /// FNV-1a, 64 bits: the same in every build, which the standard library's hashes
    /// need not be. Then mixed, so that IDs which differ at their ends alone are spread.
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

/// A taken address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) ip: IpAddr,
    pub(crate) holder: HolderKey,
    /// True if the reservation names its network, which is not the directory's own.
    pub(crate) shared: bool,
}

/// Family of an address, and its bits as two words. An IPv6 address that embeds an IPv4
/// one is IPv6.
pub(super) fn words_of(ip: IpAddr) -> [u64; 3] {
    let (family, bits) = match ip {
        IpAddr::V4(v4) => (4, v4.to_bits().into()),
        IpAddr::V6(v6) => (6, v6.to_bits()),
    };
    let [high, low] = [bits >> 64, bits & u128::from(u64::MAX)];
    let word = |bits: u128| u64::try_from(bits).unwrap_or_default();
    [family, word(high), word(low)]
}

/// The address of these words.
pub(super) fn ip_of([family, high, low]: [u64; 3]) -> Option<IpAddr> {
    let bits = (u128::from(high) << 64) | u128::from(low);
    match family {
        4 => Some(Ipv4Addr::from_bits(u32::try_from(bits).ok()?).into()),
        6 => Some(Ipv6Addr::from_bits(bits).into()),
        _ => None,
    }
}

/// The next address of the family, if there is one.
pub(super) fn successor(ip: IpAddr) -> Option<IpAddr> {
    match ip {
        IpAddr::V4(v4) => Some(Ipv4Addr::from_bits(v4.to_bits().checked_add(1)?).into()),
        IpAddr::V6(v6) => Some(Ipv6Addr::from_bits(v6.to_bits().checked_add(1)?).into()),
    }
}

/// The number that 8 bytes are.
pub(super) fn word(bytes: &[u8]) -> u64 {
    u64::from_ne_bytes(bytes.try_into().expect("8 bytes"))
}

/// A checksum against accidents, not against malice: FNV-1a over words of 64 bits.
pub(super) fn checksum(seed: u64, bytes: &[u8]) -> u64 {
    bytes
        .chunks_exact(8)
        .fold(0xcbf2_9ce4_8422_2325 ^ seed, |sum, bytes| {
            (sum ^ word(bytes))
                .wrapping_mul(0x0000_0100_0000_01b3)
                .rotate_left(23)
        })
}

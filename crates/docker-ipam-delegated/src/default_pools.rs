//! Pools for networks that ask for none: subnets of one size, out of larger ones.

use std::net::IpAddr;
use std::str::FromStr;

use ipam::{Interval, IpNet, parse_subnet};

/// What `--default-pool` is if it isn't given: IPv4, and unique local addresses of IPv6.
pub(crate) const DEFAULTS: [&str; 2] = ["10.201.0.0/16,24", "fdc7:1bd2:201::/48,64"];

/// A subnet, and the prefix length of the pools in it: `10.201.0.0/16,24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DefaultPool {
    base: IpNet,
    prefix_len: u8,
}

impl DefaultPool {
    /// The first pool that overlaps none of `used`.
    pub(crate) fn first_free(&self, v6: bool, used: &[Interval]) -> Option<IpNet> {
        if v6 != self.base.addr().is_ipv6() {
            return None;
        }
        let mut start = self.base.network();
        loop {
            let pool = IpNet::new(start, self.prefix_len).ok()?.trunc();
            if !self.base.contains(&pool) {
                return None;
            }
            let addresses = addresses(pool);
            // The next pool starts behind whatever is in the way.
            let in_the_way = used.iter().filter(|it| it.overlaps(addresses));
            let Some(last) = in_the_way.map(|it| it.last().max(addresses.last())).max() else {
                return Some(pool);
            };
            start = successor(last)?;
        }
    }
}

impl FromStr for DefaultPool {
    type Err = String;

    /// # Errors
    ///
    /// The reason why the text is no base and size.
    fn from_str(text: &str) -> Result<Self, String> {
        let (base, prefix_len) = text
            .split_once(',')
            .ok_or_else(|| format!("{text:?} is no BASE,SIZE (such as 10.201.0.0/16,24)"))?;
        let base = parse_subnet(base)
            .filter(|it| it.addr() == it.network())
            .ok_or_else(|| format!("{base:?} is no subnet (such as 10.201.0.0/16)"))?;
        let longest = base.max_prefix_len() - 2;
        let lengths = base.prefix_len()..=longest;
        let prefix_len = prefix_len.parse().ok().filter(|it| lengths.contains(it));
        let prefix_len = prefix_len.ok_or_else(|| {
            format!(
                "{text:?}: the size is a prefix length from {} to {longest}",
                base.prefix_len()
            )
        })?;
        Ok(Self { base, prefix_len })
    }
}

/// All addresses of a subnet.
pub(crate) fn addresses(subnet: IpNet) -> Interval {
    Interval::new(subnet.network(), subnet.broadcast()).expect("a subnet's end is behind its start")
}

/// The address behind this one.
pub(crate) fn successor(ip: IpAddr) -> Option<IpAddr> {
    match ip {
        IpAddr::V4(ip) => ip
            .to_bits()
            .checked_add(1)
            .map(|bits| IpAddr::V4(bits.into())),
        IpAddr::V6(ip) => ip
            .to_bits()
            .checked_add(1)
            .map(|bits| IpAddr::V6(bits.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn first_free(pool: &str, v6: bool, used: &[&str]) -> Option<String> {
        let used: Vec<Interval> = used
            .iter()
            .map(|it| addresses(it.parse().unwrap()))
            .collect();
        let pool: DefaultPool = pool.parse().unwrap();
        pool.first_free(v6, &used).map(|it| it.to_string())
    }

    #[test]
    fn the_first_pool_that_overlaps_nothing_is_chosen() {
        let first = |used: &[&str]| first_free("10.201.0.0/22,24", false, used);
        assert_eq!(first(&[]).as_deref(), Some("10.201.0.0/24"));
        assert_eq!(
            first(&["10.201.0.128/25", "10.0.0.0/24"]).as_deref(),
            Some("10.201.1.0/24")
        );
        assert_eq!(
            first(&["10.201.0.0/23", "10.201.3.0/24"]).as_deref(),
            Some("10.201.2.0/24")
        );
        assert_eq!(first(&["10.0.0.0/8"]), None);
        assert_eq!(
            first_free("255.255.255.0/24,24", false, &["255.255.255.9/32"]),
            None
        );
    }

    #[test]
    fn a_pool_is_of_the_family_that_is_asked_for() {
        assert_eq!(first_free("10.201.0.0/16,24", true, &[]), None);
        assert_eq!(first_free(DEFAULTS[1], false, &[]), None);
        let first = first_free(DEFAULTS[1], true, &["fdc7:1bd2:201::/60"]);
        assert_eq!(first.as_deref(), Some("fdc7:1bd2:201:10::/64"));
    }

    #[test]
    fn each_refusal_names_the_value() {
        for (text, message) in [
            (
                "10.201.0.0/16",
                "\"10.201.0.0/16\" is no BASE,SIZE (such as 10.201.0.0/16,24)",
            ),
            (
                "10.201.0.1/16,24",
                "\"10.201.0.1/16\" is no subnet (such as 10.201.0.0/16)",
            ),
            ("x,24", "\"x\" is no subnet (such as 10.201.0.0/16)"),
            (
                "10.201.0.0/16,8",
                "\"10.201.0.0/16,8\": the size is a prefix length from 16 to 30",
            ),
            (
                "fd00::/48,127",
                "\"fd00::/48,127\": the size is a prefix length from 48 to 126",
            ),
        ] {
            assert_eq!(text.parse::<DefaultPool>().unwrap_err(), message);
        }
    }

    proptest! {
        #[test]
        fn pools_that_are_taken_one_after_the_other_never_overlap(
            holes in proptest::collection::vec((0u32..4096, 20u8..=32), 0..6),
        ) {
            let default: DefaultPool = "10.201.0.0/20,24".parse().unwrap();
            let hole = |(start, len): &(u32, u8)| {
                let start = 0x0ac9_0000 + start;
                addresses(IpNet::new(IpAddr::V4(start.into()), *len).unwrap().trunc())
            };
            let mut used: Vec<Interval> = holes.iter().map(hole).collect();
            while let Some(pool) = default.first_free(false, &used) {
                prop_assert!(used.iter().all(|it| !it.overlaps(addresses(pool))));
                used.push(addresses(pool));
            }
            // Each pool is used, or something is in its way.
            for i in 0..16 {
                let pool: IpNet = format!("10.201.{i}.0/24").parse().unwrap();
                prop_assert!(used.iter().any(|it| it.overlaps(addresses(pool))));
            }
        }
    }
}

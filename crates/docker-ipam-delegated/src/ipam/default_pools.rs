//! Default pools, for networks that ask for no subnet: equal parts of larger subnets.

use std::str::FromStr;

use anyhow::{Context, Error, Result};
use ipam::{Interval, IpNet, parse_subnet};

/// The default of `--default-pool`: IPv4, and unique local addresses of IPv6.
pub(crate) const DEFAULTS: [&str; 2] = ["10.201.0.0/16,24", "fdc7:1bd2:201::/48,64"];

/// A subnet, and the prefix length of the pools in it: `10.201.0.0/16,24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DefaultPool {
    base: IpNet,
    prefix_len: u8,
}

/// The first subnet of these default pools that overlaps none of `used`.
pub(crate) fn next_free(pools: &[DefaultPool], v6: bool, used: &[Interval]) -> Option<IpNet> {
    let is_of_family = |pool: &&DefaultPool| pool.base.addr().is_ipv6() == v6;
    let mut pools = pools.iter().filter(is_of_family);
    pools.find_map(|pool| pool.first_free(used))
}

impl DefaultPool {
    /// The first subnet that overlaps none of `used`.
    fn first_free(&self, used: &[Interval]) -> Option<IpNet> {
        let mut rest = Interval::from(self.base);
        loop {
            let pool = IpNet::new(rest.first(), self.prefix_len).ok()?.trunc();
            let addresses = Interval::from(pool);
            let in_the_way = used.iter().filter(|interval| interval.overlaps(addresses));
            let Some(last) = in_the_way.map(|interval| interval.last()).max() else {
                return Some(pool);
            };
            // The next pool starts after everything that overlaps with this one.
            rest = rest.after(last.max(addresses.last()))?;
        }
    }
}

impl FromStr for DefaultPool {
    type Err = Error;

    /// # Errors
    ///
    /// The reason why the text is no base and size.
    fn from_str(text: &str) -> Result<Self> {
        let parts = text.split_once(',');
        let (base, size) = parts
            .with_context(|| format!("{text:?} is no BASE,SIZE (such as 10.201.0.0/16,24)"))?;
        let subnet = parse_subnet(base).filter(|net| net.addr() == net.network());
        let base =
            subnet.with_context(|| format!("{base:?} is no subnet (such as 10.201.0.0/16)"))?;
        let (shortest, longest) = (base.prefix_len(), base.max_prefix_len() - 2);
        let prefix_len = size.parse().ok();
        let prefix_len = prefix_len.filter(|length| (shortest..=longest).contains(length));
        let prefix_len = prefix_len.with_context(|| {
            format!("{text:?}: the size is a prefix length from {shortest} to {longest}")
        })?;
        Ok(Self { base, prefix_len })
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use proptest::prelude::*;

    fn next(pools: &[&str], v6: bool, used: &[&str]) -> Option<String> {
        let pools: Vec<DefaultPool> = pools.iter().map(|text| text.parse().unwrap()).collect();
        let subnet = |text: &str| text.parse::<IpNet>().unwrap();
        let used: Vec<Interval> = used.iter().map(|text| subnet(text).into()).collect();
        next_free(&pools, v6, &used).map(|pool| pool.to_string())
    }

    #[test]
    fn the_first_pool_that_overlaps_nothing_is_chosen() {
        let first = |used: &[&str]| next(&["10.201.0.0/22,24"], false, used);
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
        let last = ["255.255.255.0/24,24"];
        assert_eq!(next(&last, false, &["255.255.255.9/32"]), None);
    }

    #[test]
    fn a_pool_is_of_the_family_that_is_asked_for() {
        assert_eq!(next(&["10.201.0.0/16,24"], true, &[]), None);
        let first = next(&DEFAULTS, true, &["fdc7:1bd2:201::/60"]);
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
            assert_eq!(
                text.parse::<DefaultPool>().unwrap_err().to_string(),
                message
            );
        }
    }

    proptest! {
        #[test]
        fn pools_that_are_taken_one_after_the_other_never_overlap(
            holes in proptest::collection::vec((0u32..4096, 20u8..=32), 0..6),
        ) {
            let default: [DefaultPool; 1] = ["10.201.0.0/20,24".parse().unwrap()];
            let hole = |(start, len): &(u32, u8)| {
                let start = 0x0ac9_0000 + start;
                Interval::from(IpNet::new(IpAddr::V4(start.into()), *len).unwrap())
            };
            let mut used: Vec<Interval> = holes.iter().map(hole).collect();
            while let Some(pool) = next_free(&default, false, &used) {
                prop_assert!(used.iter().all(|taken| !taken.overlaps(pool.into())));
                used.push(pool.into());
            }
            // Each pool is used, or something is in its way.
            for i in 0..16 {
                let pool: IpNet = format!("10.201.{i}.0/24").parse().unwrap();
                prop_assert!(used.iter().any(|taken| taken.overlaps(pool.into())));
            }
        }
    }
}

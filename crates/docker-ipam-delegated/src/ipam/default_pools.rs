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

impl DefaultPool {
    /// The first pool that overlaps none of `used`, behind the one that was given last. As
    /// with Docker's own allocator, a pool that was released is given again as late as
    /// possible.
    pub(crate) fn next_free(
        &self,
        v6: bool,
        used: &[Interval],
        last: Option<IpNet>,
    ) -> Option<IpNet> {
        if v6 != self.base.addr().is_ipv6() {
            return None;
        }
        let all = Interval::from(self.base);
        let last = last.filter(|pool| self.base.contains(pool));
        let behind = last.and_then(|pool| all.after(pool.broadcast()));
        let free = behind.and_then(|rest| self.first_free(rest, used));
        free.or_else(|| self.first_free(all, used))
    }

    /// The first pool that overlaps none of `used`, among those that begin in `rest`.
    fn first_free(&self, mut rest: Interval, used: &[Interval]) -> Option<IpNet> {
        loop {
            let pool = IpNet::new(rest.first(), self.prefix_len).ok()?.trunc();
            let addresses = Interval::from(pool);
            // The next pool starts after everything that overlaps with this one.
            let in_the_way = used.iter().filter(|interval| interval.overlaps(addresses));
            let Some(last) = in_the_way
                .map(|interval| interval.last().max(addresses.last()))
                .max()
            else {
                return Some(pool);
            };
            rest = rest.after(last)?;
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

    fn first_free(pool: &str, v6: bool, used: &[&str]) -> Option<String> {
        let used: Vec<Interval> = used
            .iter()
            .map(|text| Interval::from(text.parse::<IpNet>().unwrap()))
            .collect();
        let pool: DefaultPool = pool.parse().unwrap();
        pool.next_free(v6, &used, None).map(|pool| pool.to_string())
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
    fn a_pool_that_was_released_is_given_again_as_late_as_possible() {
        let pool: DefaultPool = "10.201.0.0/22,24".parse().unwrap();
        let behind = |last: &str, used: &[&str]| {
            let used: Vec<Interval> = used
                .iter()
                .map(|text| Interval::from(text.parse::<IpNet>().unwrap()))
                .collect();
            let last = Some(last.parse().unwrap());
            pool.next_free(false, &used, last)
                .map(|pool| pool.to_string())
        };
        assert_eq!(behind("10.201.1.0/24", &[]).unwrap(), "10.201.2.0/24");
        assert_eq!(behind("10.201.3.0/24", &[]).unwrap(), "10.201.0.0/24");
        let used = ["10.201.2.0/23", "10.201.0.0/24"];
        assert_eq!(behind("10.201.1.0/24", &used).unwrap(), "10.201.1.0/24");
        assert_eq!(behind("10.9.0.0/24", &[]).unwrap(), "10.201.0.0/24");
        assert_eq!(behind("10.201.1.0/24", &["10.0.0.0/8"]), None);
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
            start_at in proptest::option::of(0u8..16),
        ) {
            let default: DefaultPool = "10.201.0.0/20,24".parse().unwrap();
            let hole = |(start, len): &(u32, u8)| {
                let start = 0x0ac9_0000 + start;
                Interval::from(IpNet::new(IpAddr::V4(start.into()), *len).unwrap())
            };
            let mut used: Vec<Interval> = holes.iter().map(hole).collect();
            let mut last = start_at.map(|i| format!("10.201.{i}.0/24").parse().unwrap());
            while let Some(pool) = default.next_free(false, &used, last) {
                prop_assert!(used.iter().all(|taken| !taken.overlaps(pool.into())));
                used.push(pool.into());
                last = Some(pool);
            }
            // Each pool is used, or something is in its way.
            for i in 0..16 {
                let pool: IpNet = format!("10.201.{i}.0/24").parse().unwrap();
                prop_assert!(used.iter().any(|taken| taken.overlaps(pool.into())));
            }
        }
    }
}

//! A range set: ranges of one family that share no address. It yields one
//! address.

use std::fmt;
use std::net::IpAddr;

use crate::{Invalid, Range, RangeConfig};

/// At least one range; all of one family, none overlapping another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeSet(Vec<Range>);

impl From<Range> for RangeSet {
    fn from(range: Range) -> Self {
        Self(vec![range])
    }
}

impl TryFrom<&[RangeConfig]> for RangeSet {
    type Error = Invalid;

    /// # Errors
    ///
    /// A range that is wrong in itself, no range, ranges of both families, or
    /// two that overlap; as host-local has it (`backend/allocator/range_set.go`,
    /// `Canonicalize`).
    fn try_from(configs: &[RangeConfig]) -> Result<Self, Invalid> {
        let ranges = configs
            .iter()
            .enumerate()
            .map(|(i, config)| Range::try_from(config).map_err(|e| e.within(&format!("[{i}]"))))
            .collect::<Result<Vec<_>, _>>()?;
        let Some(first) = ranges.first() else {
            return Err(Invalid::new("", "the range set is empty"));
        };
        for (i, range) in ranges.iter().enumerate() {
            let invalid = |reason| Err(Invalid::new("subnet", reason).within(&format!("[{i}]")));
            let subnet = range.subnet();
            if subnet.addr().is_ipv4() != first.subnet().addr().is_ipv4() {
                return invalid(format!(
                    "{subnet} and {} are of different address families",
                    first.subnet()
                ));
            }
            for earlier in &ranges[..i] {
                if earlier.addresses().overlaps(range.addresses()) {
                    return invalid(format!("{range} overlaps {earlier} in the same set"));
                }
            }
        }
        Ok(Self(ranges))
    }
}

impl RangeSet {
    /// The ranges, in order.
    pub fn ranges(&self) -> &[Range] {
        &self.0
    }

    /// The range that the address lies in.
    pub fn range_of(&self, ip: IpAddr) -> Option<&Range> {
        self.0.iter().find(|range| range.addresses().contains(ip))
    }

    /// Whether the address lies in one of the ranges.
    pub fn contains(&self, ip: IpAddr) -> bool {
        self.range_of(ip).is_some()
    }

    /// Whether some address is in both.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.0.iter().any(|a| {
            other
                .0
                .iter()
                .any(|b| a.addresses().overlaps(b.addresses()))
        })
    }

    /// How many addresses can be given.
    pub fn capacity(&self) -> u128 {
        self.0
            .iter()
            .fold(0, |sum, range| sum.saturating_add(range.capacity()))
    }
}

impl fmt::Display for RangeSet {
    /// The ranges as host-local writes them: `10.0.0.1-10.0.0.254,…`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, range) in self.0.iter().enumerate() {
            write!(f, "{}{range}", if i == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::range::tests::config;

    /// Ranges as `range::tests::config` reads them, separated by `, `.
    pub(crate) fn set(text: &str) -> Result<RangeSet, Invalid> {
        let configs: Vec<RangeConfig> = text.split_terminator(", ").map(config).collect();
        RangeSet::try_from(configs.as_slice())
    }

    #[test]
    fn a_set_may_use_one_subnet_in_parts() {
        let it = set("10.0.0.0/24 10.0.0.10 10.0.0.19, 10.0.0.0/24 10.0.0.20 10.0.0.29").unwrap();
        assert_eq!(it.to_string(), "10.0.0.10-10.0.0.19,10.0.0.20-10.0.0.29");
        assert_eq!(it.capacity(), 20);
        assert!(it.contains("10.0.0.29".parse().unwrap()));
        assert!(!it.contains("10.0.0.30".parse().unwrap()));
    }

    #[test]
    fn each_refusal_names_the_range_and_the_value() {
        for (text, message) in [
            ("", ": the range set is empty"),
            (
                "10.0.0.0/24, 10.0.1.0/30 x",
                "[1].rangeStart: \"x\" is no IP address",
            ),
            (
                "10.0.0.0/24, fd00::/64",
                "[1].subnet: fd00::/64 and 10.0.0.0/24 are of different address families",
            ),
            (
                "10.0.0.0/24 10.0.0.10 10.0.0.20, 10.0.0.0/24 10.0.0.20 10.0.0.29",
                "[1].subnet: 10.0.0.20-10.0.0.29 overlaps 10.0.0.10-10.0.0.20 in the same set",
            ),
            (
                "10.0.0.0/16, 10.0.5.0/24",
                "[1].subnet: 10.0.5.1-10.0.5.254 overlaps 10.0.0.1-10.0.255.254 in the same set",
            ),
        ] {
            assert_eq!(set(text).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn sets_overlap_where_some_ranges_do() {
        let a = set("10.0.0.0/24 10.0.0.10 10.0.0.19, 10.1.0.0/24").unwrap();
        assert!(a.overlaps(&set("10.1.0.0/16").unwrap()));
        assert!(!a.overlaps(&set("10.0.0.0/24 10.0.0.20 10.0.0.29").unwrap()));
        assert!(!a.overlaps(&set("fd00::/64").unwrap()));
    }
}

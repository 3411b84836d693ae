//! A range set: ranges of one family that share no address. It yields one address.

use std::fmt;
use std::net::IpAddr;

use cni::{Error, Object};
use ipnet::IpNet;

use crate::disjoint::Disjoint;
use crate::interval::in_family;
use crate::{Interval, Range};

/// At least one range; all of one family, none overlapping another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeSet(Vec<Range>);

impl From<Range> for RangeSet {
    fn from(range: Range) -> Self {
        Self(vec![range])
    }
}

impl RangeSet {
    /// Reads an array of ranges; `path` is its name in messages. `exclude` is what
    /// their pool excludes.
    ///
    /// # Errors
    ///
    /// Code 7, naming the key and the value: no range, a range that is invalid in
    /// itself, ranges of both families, or two that overlap; as host-local has it
    /// (`backend/allocator/range_set.go`, `Canonicalize`).
    pub fn read(path: &str, objects: &[Object], exclude: &[Interval]) -> Result<Self, Error> {
        let mut ranges: Vec<Range> = Vec::with_capacity(objects.len());
        let mut disjoint = Disjoint::default();
        for (i, object) in objects.iter().enumerate() {
            let path = format!("{path}[{i}]");
            let invalid = |why| Err(Error::config(format!("{path}.subnet: {why}")));
            let range = Range::read_excluding(&path, object, exclude)?;
            let subnet = range.subnet();
            if let Some(first) = ranges.first().map(Range::subnet)
                && subnet.addr().is_ipv4() != first.addr().is_ipv4()
            {
                return invalid(format!(
                    "{subnet} and {first} are of different address families"
                ));
            }
            if let Some(earlier) = disjoint.overlapping(range.addresses()) {
                let earlier = &ranges[earlier];
                return invalid(format!("{range} overlaps {earlier} in the same set"));
            }
            disjoint.insert(range.addresses(), i);
            ranges.push(range);
        }
        if ranges.is_empty() {
            return Err(Error::config(format!("{path}: the range set is empty")));
        }
        for i in 0..ranges.len() {
            let Some(gateway) = ranges[i].gateway() else {
                continue;
            };
            if let Some(at) = disjoint.owner(gateway).filter(|at| *at != i) {
                ranges[at].keep_free(gateway);
            }
        }
        Ok(Self(ranges))
    }

    /// The gateways of the ranges, each with its subnet.
    pub fn gateways(&self) -> impl Iterator<Item = (IpAddr, IpNet)> {
        let ranges = self.0.iter();
        ranges.filter_map(|range| Some((range.gateway()?, range.subnet())))
    }

    /// Gives the address no more: it is the gateway of another set.
    pub(crate) fn keep_free(&mut self, gateway: IpAddr) {
        let ranges = self.0.iter_mut();
        ranges.for_each(|range| range.keep_free(gateway));
    }

    /// The ranges, in order.
    pub fn ranges(&self) -> &[Range] {
        &self.0
    }

    /// The address, as one of this set's family: `::ffff:10.0.0.1` is 10.0.0.1 where
    /// the ranges are of IPv4, and itself where they are of IPv6.
    pub fn in_family(&self, ip: IpAddr) -> IpAddr {
        in_family(self.0[0].subnet().addr().is_ipv4(), ip)
    }

    /// The range that the address lies in.
    pub fn range_of(&self, ip: IpAddr) -> Option<&Range> {
        let ip = self.in_family(ip);
        self.0.iter().find(|range| range.addresses().contains(ip))
    }

    /// True if the address lies in one of the ranges.
    pub fn contains(&self, ip: IpAddr) -> bool {
        self.range_of(ip).is_some()
    }

    /// True if the address is given without request.
    pub fn gives(&self, ip: IpAddr) -> bool {
        let ip = self.in_family(ip);
        self.range_of(ip).is_some_and(|range| range.gives(ip))
    }

    /// The addresses that are given without request, by range.
    pub fn given(&self) -> impl Iterator<Item = Interval> {
        self.0
            .iter()
            .flat_map(|range| range.given().iter().copied())
    }

    /// Number of addresses that are excluded.
    pub fn excluded(&self) -> u128 {
        Interval::total(self.0.iter().flat_map(Range::excluded))
    }

    /// Number of addresses that are given without request.
    pub fn capacity(&self) -> u128 {
        Interval::total(self.0.iter().flat_map(Range::given))
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
mod tests {
    use super::*;
    use crate::tests::{object, set};

    #[test]
    fn gateways_and_excluded_addresses_are_not_given() {
        let objects = [object("10.0.0.0/29"), object("10.1.0.0/29")];
        let excluded = Interval::new("10.0.0.3".parse().unwrap(), "10.0.0.4".parse().unwrap());
        let set = RangeSet::read("set", &objects, &[excluded.unwrap()]).unwrap();
        let given = ["10.0.0.2", "10.0.0.5", "10.0.0.6", "10.1.0.2"];
        let others = ["10.0.0.0", "10.0.0.1", "10.0.0.3", "10.0.0.4", "10.0.0.7"];
        assert!(given.iter().all(|ip| set.gives(ip.parse().unwrap())));
        assert!(!others.iter().any(|ip| set.gives(ip.parse().unwrap())));
        let each: Vec<_> = set.given().flat_map(Interval::iter).collect();
        assert_eq!(each.len(), 3 + 5);
        assert!(each.iter().all(|ip| set.gives(*ip)));
        assert_eq!((set.excluded(), set.capacity()), (2, 8));
    }

    #[test]
    fn a_gateway_of_one_range_is_not_given_from_another() {
        let set = set("10.0.0.0/28 - 10.0.0.5, 10.0.0.0/28 10.0.0.8 - 10.0.0.4").unwrap();
        let given: Vec<String> = set.given().map(|part| part.to_string()).collect();
        let expected = [
            "10.0.0.2-10.0.0.3",
            "10.0.0.5-10.0.0.5",
            "10.0.0.8-10.0.0.14",
        ];
        assert_eq!(given, expected);
        assert!(!set.gives("10.0.0.4".parse().unwrap()));
        assert_eq!(set.capacity(), 10);
    }

    #[test]
    fn a_set_may_use_one_subnet_in_parts() {
        let ranges =
            set("10.0.0.0/24 10.0.0.10 10.0.0.19, 10.0.0.0/24 10.0.0.20 10.0.0.29").unwrap();
        assert_eq!(
            ranges.to_string(),
            "10.0.0.10-10.0.0.19,10.0.0.20-10.0.0.29"
        );
        assert_eq!(ranges.capacity(), 20);
        assert!(ranges.contains("10.0.0.29".parse().unwrap()));
        assert!(!ranges.contains("10.0.0.30".parse().unwrap()));
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
            assert_eq!(set(text).unwrap_err(), format!("set{message}"));
        }
    }

    #[test]
    fn what_a_pool_excludes_is_excluded_from_each_range() {
        let objects = [object("10.0.0.0/29"), object("10.0.1.0/29 - - - 10.0.1.2")];
        let exclude = ["10.0.0.3-10.0.1.3".split_once('-').unwrap()]
            .map(|(a, b)| Interval::new(a.parse().unwrap(), b.parse().unwrap()).unwrap());
        let set = RangeSet::read("set", &objects, &exclude).unwrap();
        let given = set.ranges().iter().flat_map(Range::given);
        let given: Vec<String> = given.map(Interval::to_string).collect();
        assert_eq!(given, ["10.0.0.2-10.0.0.2", "10.0.1.4-10.0.1.6"]);
        assert_eq!(set.capacity(), 4);
    }
}

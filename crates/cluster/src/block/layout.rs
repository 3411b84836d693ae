//! Divides a pool into blocks, and makes their ranges for `ipam-da-host-local`.

use std::net::IpAddr;

use cni::Object;
use ipam::{Interval, IpNet, Range, RangeSet};

use crate::address::candidates::random_address;

/// The block of this length that contains an address; `None` if the length is invalid for the
/// address family.
pub fn block_of(ip: IpAddr, length: u8) -> Option<IpNet> {
    IpNet::new(ip, length).ok().map(|block| block.trunc())
}

/// The ranges of a pool in a block. Each has the subnet and the gateway of the pool's own range,
/// so that containers of all blocks are on one link.
pub(crate) fn ranges_in(ranges: &RangeSet, block: IpNet) -> Vec<Object> {
    let block = Interval::from(block);
    let part = |range: &Range| {
        let part = range.addresses().intersection(block)?;
        // A part without a usable address is left out.
        range.given().iter().find(|given| given.overlaps(part))?;
        let mut object = Object::new();
        object.set("subnet", &range.subnet().to_string());
        object.set("rangeStart", &part.first().to_string());
        object.set("rangeEnd", &part.last().to_string());
        object.set("gateway", &range.gateway().to_string());
        Some(object)
    };
    ranges.ranges().iter().filter_map(part).collect()
}

/// Blocks of a pool with a usable address: all, or a random sample of `most`.
pub(crate) fn some_blocks(ranges: &RangeSet, length: u8, most: usize) -> Vec<IpNet> {
    let all: Vec<IpNet> = blocks(ranges.given(), length).take(most + 1).collect();
    if all.len() <= most {
        return all;
    }
    let given: Vec<Interval> = ranges.given().collect();
    let size = ranges.capacity();
    let mut some: Vec<IpNet> = Vec::with_capacity(most);
    for _ in 0..most {
        let ip = random_address(&given, size);
        if let Some(block) = ip.and_then(|ip| block_of(ip, length))
            && !some.contains(&block)
        {
            some.push(block);
        }
    }
    some
}

/// The blocks of this length that cover these intervals, in ascending order within each interval.
/// Only consecutive duplicates are removed.
pub fn blocks(
    intervals: impl IntoIterator<Item = Interval>,
    length: u8,
) -> impl Iterator<Item = IpNet> {
    let mut intervals = intervals.into_iter();
    let mut current: Option<Interval> = None;
    let mut last: Option<IpNet> = None;
    std::iter::from_fn(move || {
        loop {
            let interval = match current.take() {
                Some(interval) => interval,
                None => intervals.next()?,
            };
            let block = block_of(interval.first(), length)?;
            current = interval.after(block.broadcast());
            if last.replace(block) != Some(block) {
                return Some(block);
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ipam::Pool;
    use proptest::prelude::*;

    fn ranges(json: &str) -> RangeSet {
        Pool::read("pool", serde_json::from_str(json).unwrap())
            .unwrap()
            .ranges
    }

    fn texts(blocks: impl IntoIterator<Item = IpNet>) -> Vec<String> {
        blocks.into_iter().map(|block| block.to_string()).collect()
    }

    #[test]
    fn a_pool_is_cut_into_its_blocks() {
        let pool = ranges(
            r#"{"ranges":[{"subnet":"10.0.0.0/24","rangeStart":"10.0.0.70"},{"subnet":"10.1.0.0/25"}],"exclude":["10.0.0.128/26"]}"#,
        );
        assert_eq!(
            texts(blocks(pool.given(), 26)),
            [
                "10.0.0.64/26",
                "10.0.0.192/26",
                "10.1.0.0/26",
                "10.1.0.64/26"
            ]
        );
        assert_eq!(some_blocks(&pool, 26, 9).len(), 4);
        let six = ranges(r#"{"subnet":"fd00::/64"}"#);
        let some = some_blocks(&six, 120, 9);
        assert_eq!(some.len(), 9);
        // They are random ones: nodes that claim at once rarely claim the same.
        let first: Vec<IpNet> = blocks(six.given(), 120).take(9).collect();
        assert_ne!(some, first);
    }

    #[test]
    fn a_block_keeps_the_subnet_and_the_gateway_of_its_pool() {
        let pool = ranges(r#"{"subnet":"10.0.0.0/24","gateway":"10.0.0.254"}"#);
        let range =
            |block: &str| serde_json::to_string(&ranges_in(&pool, block.parse().unwrap())).unwrap();
        assert_eq!(
            range("10.0.0.0/26"),
            r#"[{"subnet":"10.0.0.0/24","rangeStart":"10.0.0.1","rangeEnd":"10.0.0.63","gateway":"10.0.0.254"}]"#
        );
        assert_eq!(
            range("10.0.0.192/26"),
            r#"[{"subnet":"10.0.0.0/24","rangeStart":"10.0.0.192","rangeEnd":"10.0.0.254","gateway":"10.0.0.254"}]"#
        );
        assert_eq!(range("10.0.1.0/26"), "[]");
    }

    proptest! {
        #[test]
        fn each_address_of_a_pool_is_in_one_block(
            (start, len) in (1u8..120, 0u8..100),
            excluded in proptest::collection::vec(0u8..255, 0..4),
            length in 25u8..30,
        ) {
            let exclude: Vec<String> = excluded.iter().map(|n| format!("10.0.0.{n}")).collect();
            let json = serde_json::json!({
                "subnet": "10.0.0.0/24", "rangeStart": format!("10.0.0.{start}"),
                "rangeEnd": format!("10.0.0.{}", start + len), "exclude": exclude,
            });
            let pool = ranges(&json.to_string());
            let blocks: Vec<IpNet> = blocks(pool.given(), length).collect();
            for n in 0..=255u8 {
                let ip = IpAddr::from([10, 0, 0, n]);
                let holders = blocks.iter().filter(|block| block.contains(&ip)).count();
                prop_assert!(holders <= 1);
                if pool.gives(ip) {
                    prop_assert_eq!(holders, 1);
                }
            }
            for block in &blocks {
                prop_assert!(!ranges_in(&pool, *block).is_empty());
            }
        }
    }
}

//! Finds held addresses and blocks that lose something by changed definitions.

use std::collections::BTreeMap;
use std::net::IpAddr;

use cni::NetworkName;
use ipam::{Disjoint, Interval, IpNet, Range};

use crate::contents::{ClaimedBlock, HeldAddress};
use crate::{Definition, Holder};

/// A definition that will be written.
#[derive(Clone, Copy)]
pub(super) struct Redefined<'a> {
    pub(super) name: &'a NetworkName,
    /// The definition in the engine.
    pub(super) old: Option<&'a Definition>,
    pub(super) new: &'a Definition,
}

impl Redefined<'_> {
    /// True if the pool gets an address in this interval that it didn't have.
    fn gains(&self, interval: Interval) -> bool {
        let had = |part| {
            self.old
                .is_some_and(|old| parts(old, interval).any(|(_, old)| contains(old, part)))
        };
        parts(self.new, interval).any(|(_, part)| !had(part))
    }
}

/// The definitions that will be written, by pool and by address.
struct Changes<'a> {
    by_pool: BTreeMap<&'a NetworkName, Redefined<'a>>,
    all: &'a [Redefined<'a>],
    /// Owners are indexes into `all`.
    ranges: Disjoint,
    /// New gateways.
    gateways: BTreeMap<IpAddr, Redefined<'a>>,
}

/// The reasons why these definitions can't be written: one for each held address or block that
/// loses its range, its gateway or its block size, or that another pool would give.
pub(super) fn taken_away(
    changes: &[Redefined<'_>],
    addresses: &[HeldAddress],
    blocks: &[ClaimedBlock],
) -> Vec<String> {
    let changes = Changes::new(changes);
    let of_addresses = addresses.iter().filter_map(|held| changes.address(held));
    let of_blocks = blocks.iter().filter_map(|held| changes.block(held));
    of_addresses.chain(of_blocks).collect()
}

impl<'a> Changes<'a> {
    fn new(all: &'a [Redefined<'a>]) -> Self {
        let mut ranges = Disjoint::default();
        let mut gateways = BTreeMap::new();
        for (i, change) in all.iter().enumerate() {
            // The pools don't overlap: that was verified before.
            let _ = ranges.add(&change.new.pool.ranges, i);
            let old = change.old.map(|old| old.pool.ranges.ranges());
            let had = |ip| old.is_some_and(|old| old.iter().any(|range| range.gateway() == ip));
            let new = change.new.pool.ranges.ranges().iter().map(Range::gateway);
            gateways.extend(new.filter(|ip| !had(*ip)).map(|ip| (ip, *change)));
        }
        Self {
            by_pool: all.iter().map(|change| (change.name, *change)).collect(),
            all,
            ranges,
            gateways,
        }
    }

    /// The message about a held address that loses something.
    fn address(&self, held: &HeldAddress) -> Option<String> {
        let HeldAddress { pool, ip, holder } = held;
        let holder = match holder {
            Some(holder) => describe(holder),
            None => "content that isn't ours".to_owned(),
        };
        let of = format!("{ip} of pool {pool}, which {holder} holds,");
        if let Some(change) = self.by_pool.get(pool)
            && let Some(old) = change.old
        {
            if old.block.is_none() && change.new.block.is_some() {
                return Some(format!("{of} would be in a block: pool {pool} gets block"));
            }
            if let Some(range) = old.pool.ranges.range_of(*ip) {
                match change.new.pool.ranges.range_of(*ip) {
                    None => {
                        return Some(format!("{of} would be in no range of pool {pool}"));
                    }
                    Some(new) if link(new) != link(range) => {
                        return Some(format!(
                            "{of} would lose {}, and get {}",
                            link_text(range),
                            link_text(new)
                        ));
                    }
                    Some(_) => {}
                }
            }
        }
        if let Some(change) = self.gateways.get(ip) {
            return Some(format!("{of} would be a gateway of pool {}", change.name));
        }
        let other = &self.all[self.ranges.owner(*ip)?];
        let had = |old: &Definition| old.pool.ranges.contains(*ip);
        (other.name != pool && !other.old.is_some_and(had))
            .then(|| format!("{of} would be given by pool {}", other.name))
    }

    /// The message about a held block that loses something.
    fn block(&self, held: &ClaimedBlock) -> Option<String> {
        let ClaimedBlock { pool, block, .. } = held;
        let of = format!(
            "block {block} of pool {pool}, which node {} holds,",
            held.node()
        );
        let interval = Interval::from(*block);
        // The pool may have no definition any more, or not the one by which the node gives addresses
        // of its block.
        let mut others = self.all.iter().filter(|change| change.name != pool);
        if let Some(other) = others.find(|change| change.gains(interval)) {
            return Some(format!("{of} would be given by pool {}", other.name));
        }
        let change = self.by_pool.get(pool)?;
        let old = change.old?;
        if old.block != change.new.block {
            let size =
                |block: Option<u8>| block.map_or("no block".to_owned(), |size| format!("/{size}"));
            return Some(format!(
                "{of} would lose its size: {} instead of {}",
                size(change.new.block),
                size(old.block)
            ));
        }
        let is_kept = keeps_block(old, change.new, *block);
        (!is_kept).then(|| format!("{of} would lose addresses, or its gateway"))
    }
}

/// True if a changed definition still has each usable address of a block, on the same link. The
/// node gives addresses of its block without asking the engine.
pub(crate) fn keeps_block(old: &Definition, new: &Definition, block: IpNet) -> bool {
    let interval = Interval::from(block);
    parts(old, interval).all(|(range, part)| {
        let is_kept = |(new_range, new): (&Range, Interval)| {
            link(new_range) == link(range)
                && contains(new, part)
                && keeps_given(range.given(), new_range.given(), part)
        };
        parts(new, interval).any(is_kept)
    })
}

/// The ranges of a definition, each with its part in an interval.
fn parts(definition: &Definition, interval: Interval) -> impl Iterator<Item = (&Range, Interval)> {
    let ranges = definition.pool.ranges.ranges().iter();
    ranges.filter_map(move |range| Some((range, range.addresses().intersection(interval)?)))
}

/// The subnet and the gateway of a range.
fn link(range: &Range) -> (IpNet, IpAddr) {
    (range.subnet(), range.gateway())
}

fn link_text(range: &Range) -> String {
    format!("subnet {} with gateway {}", range.subnet(), range.gateway())
}

fn contains(outer: Interval, inner: Interval) -> bool {
    outer.contains(inner.first()) && outer.contains(inner.last())
}

/// True if each address of a part that was usable is still usable.
fn keeps_given(old: &[Interval], new: &[Interval], part: Interval) -> bool {
    let mut given = old
        .iter()
        .filter_map(|interval| interval.intersection(part));
    given.all(|old| new.iter().any(|new| contains(*new, old)))
}

fn describe(holder: &Holder) -> String {
    let Holder {
        node,
        network,
        container_id,
        ifname,
        ..
    } = holder;
    format!("{container_id} {ifname} of network {network} on node {node}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BlockOwner;

    fn definition(json: &str) -> Definition {
        Definition::parse("pool", json.as_bytes()).unwrap()
    }

    fn address(pool: &str, ip: &str) -> HeldAddress {
        HeldAddress {
            pool: pool.parse().unwrap(),
            ip: ip.parse().unwrap(),
            holder: Some(Holder {
                node: "n1".into(),
                network: "net".into(),
                container_id: "c1".into(),
                ifname: "eth0".into(),
                since: String::new(),
                call: None,
            }),
        }
    }

    fn block(pool: &str, block: &str) -> ClaimedBlock {
        ClaimedBlock {
            pool: pool.parse().unwrap(),
            block: block.parse().unwrap(),
            owner: Some(BlockOwner::new("n7")),
            revision: 1,
        }
    }

    /// The refusals for a changed pool and a second, new one.
    fn refusals(
        old: &str,
        new: &str,
        second: &str,
        addresses: &[HeldAddress],
        blocks: &[ClaimedBlock],
    ) -> String {
        let [old, new, second] = [old, new, second].map(definition);
        let names = ["lan", "dmz"].map(|name| name.parse().unwrap());
        let changes = [
            Redefined {
                name: &names[0],
                old: Some(&old),
                new: &new,
            },
            Redefined {
                name: &names[1],
                old: None,
                new: &second,
            },
        ];
        taken_away(&changes, addresses, blocks).join("\n")
    }

    const OLD: &str = r#"{"subnet":"10.0.0.0/24"}"#;
    const APART: &str = r#"{"subnet":"10.9.0.0/24"}"#;

    #[test]
    fn a_held_address_keeps_its_range_and_its_gateway() {
        let held = [address("lan", "10.0.0.200")];
        for (new, second, why) in [
            (OLD, APART, ""),
            (
                r#"{"subnet":"10.0.0.0/24","rangeStart":"10.0.0.100"}"#,
                APART,
                "",
            ),
            (
                r#"{"subnet":"10.0.0.0/24","exclude":["10.0.0.200"]}"#,
                APART,
                "",
            ),
            (
                r#"{"subnet":"10.0.0.0/24","rangeEnd":"10.0.0.127"}"#,
                APART,
                "10.0.0.200 of pool lan, which c1 eth0 of network net on node n1 holds, would be in no range",
            ),
            (
                r#"{"subnet":"10.0.0.0/25"}"#,
                r#"{"subnet":"10.0.0.128/25"}"#,
                "in no range of pool lan",
            ),
            (
                r#"{"subnet":"10.0.0.0/24","gateway":"10.0.0.2"}"#,
                APART,
                "would lose subnet 10.0.0.0/24 with gateway 10.0.0.1",
            ),
            (
                r#"{"subnet":"10.0.0.0/23"}"#,
                APART,
                "would lose subnet 10.0.0.0/24",
            ),
            (
                r#"{"subnet":"10.0.0.0/24","block":26}"#,
                APART,
                "pool lan gets block",
            ),
            (
                OLD,
                r#"{"subnet":"10.9.0.0/24","gateway":"10.0.0.200"}"#,
                "would be a gateway of pool dmz",
            ),
        ] {
            let said = refusals(OLD, new, second, &held, &[]);
            assert_eq!(said.is_empty(), why.is_empty(), "{new}: {said}");
            assert!(said.contains(why), "{new}: {said}");
        }
    }

    #[test]
    fn an_address_outside_of_its_pool_may_get_into_it() {
        let elsewhere = r#"{"subnet":"10.8.0.0/24"}"#;
        let held = [address("lan", "10.0.0.200")];
        assert_eq!(refusals(elsewhere, OLD, APART, &held, &[]), "");
    }

    #[test]
    fn an_address_of_a_pool_that_nobody_defines_is_given_by_no_other() {
        let held = [address("old", "10.9.0.7")];
        let said = refusals(OLD, OLD, APART, &held, &[]);
        assert!(said.ends_with("would be given by pool dmz"), "{said}");
        let held = [block("old", "10.9.0.0/26")];
        let said = refusals(OLD, OLD, APART, &[], &held);
        assert!(said.ends_with("would be given by pool dmz"), "{said}");
    }

    #[test]
    fn a_held_block_is_given_by_no_other_pool_whatever_its_own_pools_definition_is() {
        let names = ["lan", "dmz"].map(|name| name.parse().unwrap());
        let [elsewhere, dmz] = [r#"{"subnet":"10.8.0.0/24","block":26}"#, APART].map(definition);
        let held = [block("lan", "10.9.0.0/26")];
        for old in [None, Some(&elsewhere)] {
            let redefined = |name, old, new| Redefined { name, old, new };
            let lan = redefined(&names[0], old, &elsewhere);
            let said = |old| taken_away(&[lan, redefined(&names[1], old, &dmz)], &[], &held);
            let refusals = said(None);
            assert!(
                refusals[0].ends_with("would be given by pool dmz"),
                "{refusals:?}"
            );
            // Another import has given these addresses to it before.
            assert_eq!(said(Some(&dmz)), [""; 0]);
        }
    }

    #[test]
    fn a_held_address_becomes_no_gateway() {
        let old = r#"{"ranges":[{"subnet":"10.0.0.0/24","rangeEnd":"10.0.0.9"}]}"#;
        let new = r#"{"ranges":[{"subnet":"10.0.0.0/24","rangeEnd":"10.0.0.9"},
            {"subnet":"10.0.0.0/24","rangeStart":"10.0.0.20","gateway":"10.0.0.5"}]}"#;
        let said = refusals(old, new, APART, &[address("lan", "10.0.0.5")], &[]);
        assert!(said.ends_with("would be a gateway of pool lan"), "{said}");
    }

    #[test]
    fn a_held_block_keeps_its_size_and_all_that_it_gives() {
        let old = r#"{"subnet":"10.0.0.0/24","block":26}"#;
        let held = [block("lan", "10.0.0.64/26")];
        for (new, why) in [
            (old, ""),
            (
                r#"{"subnet":"10.0.0.0/24","block":26,"rangeStart":"10.0.0.64"}"#,
                "",
            ),
            (
                r#"{"subnet":"10.0.0.0/24","block":26,"exclude":["10.0.0.63"]}"#,
                "",
            ),
            (r#"{"subnet":"10.0.0.0/24"}"#, "no block instead of /26"),
            (
                r#"{"subnet":"10.0.0.0/24","block":27}"#,
                "/27 instead of /26",
            ),
            (
                r#"{"subnet":"10.0.0.0/24","block":26,"exclude":["10.0.0.64"]}"#,
                "block 10.0.0.64/26 of pool lan, which node n7 holds, would lose addresses",
            ),
            (
                r#"{"subnet":"10.0.0.0/24","block":26,"rangeEnd":"10.0.0.126"}"#,
                "lose addresses",
            ),
            (
                r#"{"subnet":"10.0.0.0/24","block":26,"gateway":"10.0.0.9"}"#,
                "its gateway",
            ),
            (r#"{"subnet":"10.0.0.128/25","block":26}"#, "lose addresses"),
        ] {
            let said = refusals(old, new, APART, &[], &held);
            assert_eq!(said.is_empty(), why.is_empty(), "{new}: {said}");
            assert!(said.contains(why), "{new}: {said}");
        }
    }
}

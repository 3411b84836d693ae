//! Pools that are given in blocks, and the nodes that have claimed these.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use cluster::{BlockOwner, Engine as _, EngineError, Group, Key};
use cni::NetworkName;
use conflist::Problem;
use etcd::Engine;
use ipam::{Interval, IpNet, Range, RangeSet};

use super::EtcdCluster;
use super::view::warn_of_foreign;

/// A pool that is given in blocks.
#[derive(Debug)]
pub(crate) struct BlockPool {
    pub(crate) name: NetworkName,
    pub(crate) ranges: RangeSet,
    /// Length of the prefix of a block.
    pub(crate) length: u8,
    /// The claimed blocks, lowest first.
    pub(crate) claimed: Vec<ClaimedBlock>,
}

/// A block that a node has claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClaimedBlock {
    pub(crate) pool: NetworkName,
    pub(crate) block: IpNet,
    /// `None` for foreign content.
    pub(crate) owner: Option<BlockOwner>,
    /// The revision of the claim.
    pub(crate) mod_revision: i64,
}

impl BlockPool {
    /// Number of blocks that a range of the pool has a part in.
    pub(crate) fn size(&self) -> u128 {
        let mut blocks: Vec<(u128, u128)> = self
            .ranges
            .ranges()
            .iter()
            .map(|it| self.numbers(it.addresses()))
            .collect();
        blocks.sort_unstable();
        let (mut size, mut next) = (0, 0);
        for (first, last) in blocks {
            let first = first.max(next);
            if first <= last {
                size += last - first + 1;
                next = last + 1;
            }
        }
        size
    }

    /// All blocks, lowest first: as many as [`Self::size`].
    pub(crate) fn blocks(&self) -> Vec<IpNet> {
        let ranges = self.ranges.ranges().iter();
        let blocks = cluster::block::blocks(ranges.map(Range::addresses), self.length);
        let blocks: BTreeSet<IpNet> = blocks.collect();
        blocks.into_iter().collect()
    }

    /// The numbers of the first and the last block that an interval lies in, counted from the
    /// address zero.
    fn numbers(&self, interval: Interval) -> (u128, u128) {
        let number = |ip: IpAddr| match ip {
            IpAddr::V4(ip) => u128::from(ip.to_bits()) >> (32 - self.length),
            // Of the whole of IPv6, there is one block.
            IpAddr::V6(ip) => ip
                .to_bits()
                .checked_shr(128 - u32::from(self.length))
                .unwrap_or(0),
        };
        (number(interval.first()), number(interval.last()))
    }

    /// Number of blocks by node, in the nodes' order; those with foreign content are `?`.
    pub(crate) fn by_node(&self) -> BTreeMap<&str, usize> {
        let mut nodes = BTreeMap::new();
        for it in &self.claimed {
            *nodes.entry(it.node()).or_default() += 1;
        }
        nodes
    }
}

impl ClaimedBlock {
    /// The node; `?` if the content isn't ours.
    pub(crate) fn node(&self) -> &str {
        self.owner.as_ref().map_or("?", |it| it.node.as_str())
    }
}

/// The pools of a cluster that are given in blocks.
///
/// # Errors
///
/// Those of etcd.
pub(crate) fn block_pools(
    cluster: &EtcdCluster,
    engine: &mut Engine<'_>,
    problems: &mut Vec<Problem>,
) -> Result<Vec<BlockPool>, EngineError> {
    let definitions = cluster.definitions(engine, problems)?;
    let mut claimed: BTreeMap<NetworkName, Vec<ClaimedBlock>> = BTreeMap::new();
    for it in claimed_blocks(engine)? {
        claimed.entry(it.pool.clone()).or_default().push(it);
    }
    let pools = definitions.into_iter().filter_map(|it| {
        Some(BlockPool {
            length: it.definition.block?,
            ranges: it.definition.pool.ranges,
            claimed: claimed.remove(&it.name).unwrap_or_default(),
            name: it.name,
        })
    });
    Ok(pools.collect())
}

/// The claimed blocks of all pools, lowest first: those of pools that nobody defines any
/// more, too. A key that is no block's is named on stderr.
///
/// # Errors
///
/// Those of etcd.
pub(crate) fn claimed_blocks(engine: &mut Engine<'_>) -> Result<Vec<ClaimedBlock>, EngineError> {
    let mut found = Vec::new();
    for stored in engine.list(&Group::Blocks(None), true)? {
        match stored.key {
            Key::Block(pool, block) if pool.parse::<NetworkName>().is_ok() => {
                found.push(ClaimedBlock {
                    block,
                    pool: pool.parse().expect("it was parsed just now"),
                    owner: BlockOwner::parse(&stored.value),
                    mod_revision: stored.revision,
                });
            }
            key => warn_of_foreign(&engine.path(&key)),
        }
    }
    found.sort_by_key(|it| it.block.network());
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(ranges: &[&str], length: u8) -> BlockPool {
        let ranges: Vec<_> = ranges
            .iter()
            .map(|it| serde_json::from_str(it).unwrap())
            .collect();
        BlockPool {
            name: "p".parse().unwrap(),
            ranges: RangeSet::read("p", &ranges, &[]).unwrap(),
            length,
            claimed: Vec::new(),
        }
    }

    #[test]
    fn blocks_that_two_ranges_share_are_counted_once() {
        let whole = r#"{"subnet":"10.0.0.0/24"}"#;
        assert_eq!(pool(&[whole], 28).size(), 16);
        let low = r#"{"subnet":"10.0.0.0/24","rangeStart":"10.0.0.20","rangeEnd":"10.0.0.40"}"#;
        let high = r#"{"subnet":"10.0.0.0/24","rangeStart":"10.0.0.41","rangeEnd":"10.0.0.60"}"#;
        assert_eq!(pool(&[high, low], 28).size(), 3);
        let blocks = ["10.0.0.16/28", "10.0.0.32/28", "10.0.0.48/28"];
        assert_eq!(
            pool(&[high, low], 28).blocks(),
            blocks.map(|it| it.parse().unwrap())
        );
        assert_eq!(pool(&[r#"{"subnet":"fd00::/64"}"#], 80).size(), 1 << 16);
    }
}

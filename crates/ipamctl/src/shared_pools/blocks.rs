//! Pools with blocks, and the nodes that have claimed these.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use cluster::contents::{ClaimedBlock, claimed_blocks, definitions};
use cluster::{Engine, EngineError};
use cni::NetworkName;
use conflist::Problem;
use ipam::{Interval, IpNet, Range, RangeSet};

use super::problem;

/// A pool with blocks.
#[derive(Debug)]
pub(crate) struct BlockPool {
    pub(crate) name: NetworkName,
    pub(crate) ranges: RangeSet,
    /// Length of the prefix of a block.
    pub(crate) length: u8,
    /// The claimed blocks, lowest first.
    pub(crate) claimed: Vec<ClaimedBlock>,
}

impl BlockPool {
    /// Number of blocks that overlap with a range of the pool.
    pub(crate) fn size(&self) -> u128 {
        let block = |ip: IpAddr| cluster::block::block_of(ip, self.length);
        let covered = self.ranges.ranges().iter().filter_map(|range| {
            let (first, last) = (range.addresses().first(), range.addresses().last());
            Interval::new(block(first)?.network(), block(last)?.broadcast())
        });
        let covered = Interval::merged(covered.collect());
        let blocks = covered.into_iter().map(|interval| {
            let bits = if interval.first().is_ipv4() { 32 } else { 128 };
            let in_block = bits - u32::from(self.length);
            // A block of the size of all of IPv6 is the only one.
            (interval.size() - 1).checked_shr(in_block).unwrap_or(0) + 1
        });
        blocks.sum()
    }

    /// All blocks, lowest first: as many as [`Self::size`].
    pub(crate) fn blocks(&self) -> Vec<IpNet> {
        let ranges = self.ranges.ranges().iter();
        let blocks = cluster::block::blocks(ranges.map(Range::addresses), self.length);
        let blocks: BTreeSet<IpNet> = blocks.collect();
        blocks.into_iter().collect()
    }

    /// The blocks of each node; the node of those with foreign content is `?`.
    pub(crate) fn by_node(&self) -> BTreeMap<&str, Vec<IpNet>> {
        let mut nodes: BTreeMap<&str, Vec<IpNet>> = BTreeMap::new();
        for claimed in &self.claimed {
            nodes.entry(claimed.node()).or_default().push(claimed.block);
        }
        nodes
    }
}

/// The pools of a cluster with blocks, and the unusable definitions.
///
/// # Errors
///
/// Those of the engine.
pub(crate) fn block_pools(
    engine: &mut dyn Engine,
) -> Result<(Vec<BlockPool>, Vec<Problem>), EngineError> {
    let definitions = definitions(engine)?;
    let mut claimed: BTreeMap<NetworkName, Vec<ClaimedBlock>> = BTreeMap::new();
    for block in claimed_blocks(engine)? {
        claimed.entry(block.pool.clone()).or_default().push(block);
    }
    let (mut pools, mut problems) = (Vec::new(), Vec::new());
    for pool in definitions {
        match pool {
            Err(unusable) => problems.push(problem(engine, unusable)),
            Ok(pool) => pools.extend(pool.definition.block.map(|length| BlockPool {
                length,
                claimed: claimed.remove(&pool.name).unwrap_or_default(),
                ranges: pool.definition.pool.ranges,
                name: pool.name,
            })),
        }
    }
    Ok((pools, problems))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(ranges: &[&str], length: u8) -> BlockPool {
        let ranges: Vec<_> = ranges
            .iter()
            .map(|range| serde_json::from_str(range).unwrap())
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
            blocks.map(|block| block.parse().unwrap())
        );
        assert_eq!(pool(&[r#"{"subnet":"fd00::/64"}"#], 80).size(), 1 << 16);
    }
}

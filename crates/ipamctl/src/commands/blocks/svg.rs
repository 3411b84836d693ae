//! Draws the blocks of pools: a square for each block, coloured by its node.

use std::collections::BTreeMap;

use crate::output::svg::{Canvas, Square};
use crate::shared_pools::blocks::BlockPool;

/// Most squares of a pool. For a larger pool, only the claimed blocks are drawn.
const MOST_CELLS: u128 = 4096;

/// The picture of these pools.
pub(super) fn picture(pools: &[BlockPool]) -> Canvas {
    let mut canvas = Canvas::new("Blocks by node");
    let nodes = pools.iter().flat_map(|pool| pool.by_node().into_keys());
    let mut colours: BTreeMap<&str, String> = nodes.map(|node| (node, String::new())).collect();
    for (i, colour) in colours.values_mut().enumerate() {
        // The golden angle: each colour is far from the one before.
        *colour = format!("hsl({}, 60%, 50%)", (i * 137) % 360);
    }
    for pool in pools {
        canvas.heading(&format!(
            "{}: {} of {} blocks of /{} claimed",
            pool.name,
            pool.claimed.len(),
            pool.size(),
            pool.length
        ));
        let mut squares = BTreeMap::new();
        if pool.size() <= MOST_CELLS {
            let free = pool.blocks().into_iter();
            squares.extend(free.map(|block| (block, Square::new("free", format!("{block} free")))));
        }
        for (node, blocks) in pool.by_node() {
            squares.extend(blocks.into_iter().map(|block| {
                let colour = colours.get(node).cloned();
                let square = Square::new("", format!("{block} {node}"));
                (block, Square { colour, ..square })
            }));
        }
        let squares = squares.into_iter();
        canvas.rows(squares.map(|(block, square)| (block.to_string(), square)));
        canvas.space();
    }
    for (node, colour) in colours {
        let square = Square {
            colour: Some(colour),
            ..Square::default()
        };
        canvas.line(&square, node);
    }
    canvas
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::BlockOwner;
    use cluster::contents::ClaimedBlock;
    use ipam::RangeSet;

    #[test]
    fn each_block_is_a_cell_and_a_claimed_one_names_its_node() {
        let range = serde_json::from_str(r#"{"subnet":"10.0.0.0/24"}"#).unwrap();
        let pool = BlockPool {
            name: "lan".parse().unwrap(),
            ranges: RangeSet::read("p", &[range], &[]).unwrap(),
            length: 28,
            claimed: vec![ClaimedBlock {
                pool: "lan".parse().unwrap(),
                block: "10.0.0.16/28".parse().unwrap(),
                owner: Some(BlockOwner {
                    node: "node-a".to_owned(),
                    since: String::new(),
                }),
                revision: 1,
            }],
        };
        let picture = picture(&[pool]).finish();
        assert_eq!(picture.matches("class=\"free\"").count(), 15);
        assert!(picture.contains("10.0.0.16/28 node-a"), "{picture}");
        assert!(picture.contains("lan: 1 of 16 blocks of /28 claimed"));
    }
}

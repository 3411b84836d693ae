//! The blocks of pools as a picture: a cell for each block, coloured by its node.

use std::collections::BTreeMap;

use svg::Document;
use svg::node::element::{Rectangle, Style, Text, Title};

use crate::output::plain;
use crate::shared_pools::{BlockPool, ClaimedBlock};

/// Cells of a row, and their size with the gap.
const PER_ROW: usize = 32;
const STEP: usize = 20;
const MARGIN: usize = 16;
const LINE: usize = 22;

/// Most cells of a pool. Of a larger one, only the claimed blocks are drawn.
const MOST_CELLS: u128 = 4096;

const STYLE: &str = "svg { background: #ffffff; }
text { font: 13px sans-serif; fill: #1f2328; }
.free { fill: #eaeef2; }
@media (prefers-color-scheme: dark) {
  svg { background: #0d1117; } text { fill: #e6edf3; } .free { fill: #2b323b; }
}";

/// The picture of these pools.
pub(super) fn picture(pools: &[BlockPool]) -> String {
    let mut y = MARGIN;
    let mut document = Document::new()
        .set("role", "img")
        .add(Title::new("Blocks by node"))
        .add(Style::new(STYLE));
    let colours = colours(pools);
    for pool in pools {
        let title = format!(
            "{}: {} of {} blocks of /{} claimed",
            pool.name,
            pool.claimed.len(),
            pool.size(),
            pool.length
        );
        document = document.add(text(MARGIN, y, &title));
        y += LINE;
        let cells = cells(pool);
        for (i, cell) in cells.iter().enumerate() {
            let (column, row) = (i % PER_ROW, i / PER_ROW);
            let square = Rectangle::new()
                .set("x", MARGIN + column * STEP)
                .set("y", y + row * STEP)
                .set("width", STEP - 2)
                .set("height", STEP - 2)
                .set("rx", 2);
            document = document.add(match cell {
                None => square.set("class", "free"),
                Some(it) => square
                    .set("fill", colours[it.node()].as_str())
                    .add(Title::new(plain(&format!("{} {}", it.block, it.node())))),
            });
        }
        y += cells.len().div_ceil(PER_ROW) * STEP + LINE / 2;
    }
    for (node, colour) in &colours {
        let square = Rectangle::new()
            .set("x", MARGIN)
            .set("y", y)
            .set("width", STEP - 2)
            .set("height", STEP - 2)
            .set("fill", colour.as_str());
        document = document.add(square).add(text(MARGIN + STEP + 4, y, node));
        y += LINE;
    }
    let width = 2 * MARGIN + PER_ROW * STEP;
    let document = document
        .set("viewBox", (0, 0, width, y + MARGIN))
        .set("width", width)
        .set("height", y + MARGIN);
    format!("{document}\n")
}

/// The claimed block of each cell; `None` for a free one.
fn cells(pool: &BlockPool) -> Vec<Option<&ClaimedBlock>> {
    if pool.size() > MOST_CELLS {
        return pool.claimed.iter().map(Some).collect();
    }
    let claimed: BTreeMap<_, _> = pool.claimed.iter().map(|it| (it.block, it)).collect();
    let blocks = pool.blocks().into_iter();
    blocks.map(|block| claimed.get(&block).copied()).collect()
}

/// A colour for each node, as far from the one before as can be.
fn colours(pools: &[BlockPool]) -> BTreeMap<&str, String> {
    let nodes = pools.iter().flat_map(|it| it.by_node().into_keys());
    let mut colours: BTreeMap<&str, String> = nodes.map(|node| (node, String::new())).collect();
    for (i, colour) in colours.values_mut().enumerate() {
        // The golden angle.
        let hue = (i * 137) % 360;
        *colour = format!("hsl({hue}, 60%, 50%)");
    }
    colours
}

fn text(x: usize, y: usize, content: &str) -> Text {
    Text::new(plain(content)).set("x", x).set("y", y + 14)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::BlockOwner;
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
                mod_revision: 1,
            }],
        };
        let picture = picture(&[pool]);
        assert_eq!(picture.matches("class=\"free\"").count(), 15);
        assert!(picture.contains("10.0.0.16/28 node-a"), "{picture}");
        assert!(picture.contains("lan: 1 of 16 blocks of /28 claimed"));
    }
}

//! Draws a pool as SVG, with a title for each cell.

use crate::commands::map::cells::{Block, Cell, Grid, Picture};
use crate::node::large;
use crate::output::svg::{Canvas, Square};

/// Most cells of a picture, 64 networks of a /24: a browser can draw it.
const MOST_CELLS: usize = 16_384;

/// The picture of a network's pools.
pub(super) fn canvas(name: &str, pictures: &[Picture<'_>]) -> Canvas {
    let mut canvas = Canvas::new(&format!("Addresses of {name}"));
    let (mut cells, mut has_blocks) = (0, false);
    for picture in pictures {
        canvas.heading(&picture.title);
        canvas.note(&picture.counts());
        canvas.space();
        for (subnet, grid) in picture.grids() {
            cells += match &grid {
                Grid::Addresses(addresses) => addresses.len(),
                Grid::Blocks(blocks) => blocks.len(),
                Grid::Runs(runs, _) => runs.len(),
            };
            has_blocks |= matches!(grid, Grid::Blocks(_));
            match grid {
                _ if cells > MOST_CELLS => canvas.note(&format!(
                    "{subnet}: not drawn, since the picture has {MOST_CELLS} cells"
                )),
                Grid::Addresses(cells) => canvas.rows(cells.into_iter().map(|(ip, cell)| {
                    let title = format!("{ip}: {}", cell.look().name);
                    (
                        ip.to_string(),
                        square(cell, with_holder(title, picture.holder(ip))),
                    )
                })),
                Grid::Blocks(blocks) => {
                    let blocks = blocks.iter();
                    canvas.rows(blocks.map(|block| (block.first.to_string(), shaded(block))));
                }
                Grid::Runs(runs, _) if runs.is_empty() => {
                    canvas.note(&format!("{subnet}: no address is reserved"));
                }
                Grid::Runs(runs, more) => {
                    for (run, cell) in runs {
                        let (first, count) = (run.first(), large(run.size()));
                        let title = format!("{run}: {count} {}", cell.look().name);
                        let (text, holder) = match run.size() {
                            1 => (first.to_string(), picture.holder(first)),
                            _ => (format!("{run} ({count})"), None),
                        };
                        canvas.line(&square(cell, with_holder(title, holder)), &text);
                    }
                    if more > 0 {
                        canvas.note(&format!("and {more} more runs"));
                    }
                }
            }
            canvas.space();
        }
    }
    for cell in Cell::ALL {
        canvas.line(&square(cell, None), cell.look().name);
    }
    if has_blocks {
        canvas.note("A cell is a /24, or more of a large subnet, shaded by how full it is.");
    }
    canvas
}

fn square(cell: Cell, title: Option<String>) -> Square {
    let look = cell.look();
    Square {
        title,
        class: look.name,
        letter: look.letter,
        ..Square::default()
    }
}

/// A block, shaded by how full it is.
fn shaded(block: &Block) -> Square {
    let name = format!("{}/{}", block.first, block.prefix);
    if block.size == 0 {
        return square(Cell::Outside, Some(format!("{name}: outside")));
    }
    let leaks = match block.leaked {
        0 => String::new(),
        leaked => format!(", {leaked} leaked"),
    };
    let title = format!(
        "{name}: {} of {} reserved{leaks}",
        block.reserved, block.size
    );
    #[expect(clippy::cast_precision_loss, reason = "it is a shade")]
    let full = block.reserved as f64 / block.size as f64;
    Square {
        // One address must be visible, too.
        shade: (block.reserved > 0).then_some(0.15 + 0.85 * full),
        is_marked: block.leaked > 0,
        ..square(Cell::Free, Some(title))
    }
}

fn with_holder(title: String, holder: Option<&String>) -> Option<String> {
    Some(match holder {
        Some(holder) => format!("{title}, {holder}"),
        None => title,
    })
}

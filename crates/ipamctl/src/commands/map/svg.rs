//! Draws a pool as SVG, with a title for each cell.

use std::path::Path;

use anyhow::Result;

use crate::commands::map::cells::{Block, Cell, Grid, Picture, Run};
use crate::node::pool_usage::large;
use crate::output::Output;
use crate::output::svg::{Canvas, Square};

/// Most cells of a picture: 64 networks of a /24. A browser draws it, and it fits into memory.
const MOST_CELLS: usize = 16_384;

/// Writes the picture of a network's pools to a file.
pub(super) fn write(
    name: &str,
    pictures: &[Picture<'_>],
    file: &Path,
    output: Output,
) -> Result<()> {
    let mut canvas = Canvas::new(&format!("Addresses of {name}"));
    let (mut cells, mut has_blocks) = (0, false);
    for picture in pictures {
        canvas.heading(&picture.title);
        canvas.note(&picture.counts());
        canvas.space();
        for (subnet, grid) in picture.grids() {
            cells += grid.len();
            has_blocks |= matches!(grid, Grid::Blocks(_));
            match grid {
                _ if cells > MOST_CELLS => canvas.note(&format!(
                    "{subnet}: not drawn, since the picture has {MOST_CELLS} cells"
                )),
                Grid::Addresses(cells) => canvas.rows(cells.into_iter().map(|(ip, cell)| {
                    let holder = picture.holders.get(&ip);
                    let title = with_holder(format!("{ip}: {}", cell.name()), holder);
                    (ip.to_string(), square(cell, Some(title)))
                })),
                Grid::Blocks(blocks) => {
                    let squares = blocks
                        .iter()
                        .map(|block| (block.first.to_string(), shaded(block)));
                    canvas.rows(squares);
                }
                Grid::Runs(runs, _) if runs.is_empty() => {
                    canvas.note(&format!("{subnet}: no address is reserved"));
                }
                Grid::Runs(runs, more) => {
                    for run in &runs {
                        draw_run(&mut canvas, run, picture);
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
        canvas.line(square(cell, None), cell.name());
    }
    if has_blocks {
        canvas.note("A cell is a /24, or more of a large subnet, shaded by how full it is.");
    }
    canvas.write(file, output)
}

fn square(cell: Cell, title: Option<String>) -> Square {
    Square {
        title,
        class: cell.name(),
        letter: match cell {
            Cell::Gateway => "G",
            Cell::Leaked => "!",
            Cell::Excluded => "×",
            _ => "",
        },
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
        // A single address is visible, too.
        shade: (block.reserved > 0).then_some(0.15 + 0.85 * full),
        is_marked: block.leaked > 0,
        ..square(Cell::Free, Some(title))
    }
}

fn draw_run(canvas: &mut Canvas, run: &Run, picture: &Picture<'_>) {
    let Run { addresses, cell } = run;
    let (first, count) = (addresses.first(), addresses.size());
    let holder = picture.holders.get(&first).filter(|_| count == 1);
    let title = format!("{addresses}: {} {}", large(count), cell.name());
    let text = match count {
        1 => first.to_string(),
        _ => format!("{addresses} ({})", large(count)),
    };
    canvas.line(square(*cell, Some(with_holder(title, holder))), &text);
}

fn with_holder(title: String, holder: Option<&String>) -> String {
    match holder {
        Some(holder) => format!("{title}, {holder}"),
        None => title,
    }
}

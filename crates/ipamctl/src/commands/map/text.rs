//! Draws a pool as text: sixteen cells a row.

use std::net::IpAddr;

use crate::commands::map::cells::{Block, Cell, Grid, Picture};
use crate::node::large;
use crate::output::{Output, Style, joined};

/// Cells of a row.
const ROW: usize = 16;

/// Shades of a block, from empty to full, and their names.
const SHADES: [(&str, &str); 5] = [
    ("·", "empty"),
    ("░", "to a third"),
    ("▒", "to two thirds"),
    ("▓", "more"),
    ("█", "full"),
];

/// The lines of all pictures, and the legend.
pub(super) fn lines(pictures: &[Picture<'_>], output: Output) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut has_cells, mut has_blocks) = (false, false);
    for picture in pictures {
        lines.push(output.styled(Style::Bold, &picture.title));
        lines.push(picture.counts());
        for (subnet, grid) in picture.grids() {
            lines.push(String::new());
            match grid {
                Grid::Addresses(cells) => {
                    has_cells = true;
                    let marks = cells.iter();
                    lines.extend(rows(marks.map(|(ip, cell)| (*ip, of_cell(*cell, output)))));
                }
                Grid::Blocks(blocks) => {
                    has_blocks = true;
                    let marks = blocks.iter();
                    lines.extend(rows(
                        marks.map(|block| (block.first, of_block(block, output))),
                    ));
                }
                Grid::Runs(runs, _) if runs.is_empty() => {
                    lines.push(format!("{subnet}: no address is reserved"));
                }
                Grid::Runs(runs, more) => {
                    for (run, cell) in runs {
                        let (mark, name) = (of_cell(cell, output), cell.look().name);
                        lines.push(match run.size() {
                            1 => format!("{mark} {} ({name})", run.first()),
                            count => format!("{mark} {run} ({} {name})", large(count)),
                        });
                    }
                    if more > 0 {
                        lines.push(format!("  and {more} more runs"));
                    }
                }
            }
        }
        lines.push(String::new());
    }
    if has_cells {
        let shown = Cell::ALL.iter().filter(|cell| **cell != Cell::Outside);
        let legend = shown.map(|cell| format!("{} {}", of_cell(*cell, output), cell.look().name));
        lines.push(joined(legend, "   "));
    }
    if has_blocks {
        let shades = SHADES.iter().map(|(shade, name)| format!("{shade} {name}"));
        let (shades, leak) = (joined(shades, "   "), of_cell(Cell::Leaked, output));
        lines.push(format!(
            "one cell is a /24, or more of a large subnet: {shades}   {leak} with leaks"
        ));
    }
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

/// Rows of marks, each with the address of its first one.
fn rows(marks: impl Iterator<Item = (IpAddr, String)>) -> Vec<String> {
    let mut rows: Vec<String> = Vec::new();
    for (i, (ip, mark)) in marks.enumerate() {
        if i % ROW == 0 {
            rows.push(format!("{:<15} ", ip.to_string()));
        }
        if let Some(row) = rows.last_mut() {
            *row += &format!(" {mark}");
        }
    }
    rows.iter().map(|row| row.trim_end().to_owned()).collect()
}

fn of_cell(cell: Cell, output: Output) -> String {
    let look = cell.look();
    match look.style {
        Some(style) => output.styled(style, look.mark),
        None => look.mark.to_owned(),
    }
}

fn of_block(block: &Block, output: Output) -> String {
    let shade = match block.reserved {
        _ if block.leaked > 0 => return of_cell(Cell::Leaked, output),
        _ if block.size == 0 => return of_cell(Cell::Outside, output),
        0 => 0,
        reserved if reserved >= block.size => 4,
        reserved => usize::try_from(1 + reserved * 3 / block.size).unwrap_or(3),
    };
    output.styled(Style::Green, SHADES[shade].0)
}

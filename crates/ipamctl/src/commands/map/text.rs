//! Draws a pool as text: sixteen cells a row.

use std::net::IpAddr;

use crate::commands::map::cells::{Block, Cell, Grid, Picture, Run};
use crate::node::pool_usage::large;
use crate::output::{Output, Style, joined};

/// Cells of a row.
const ROW: usize = 16;

/// Shades of a block, from empty to full.
const SHADES: [char; 5] = ['·', '░', '▒', '▓', '█'];

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
                    let mark = |(ip, cell): &(IpAddr, Cell)| (*ip, of_cell(*cell, output));
                    lines.extend(rows(&cells.iter().map(mark).collect::<Vec<_>>()));
                }
                Grid::Blocks(blocks) => {
                    has_blocks = true;
                    let mark = |block: &Block| (block.first, of_block(block, output));
                    lines.extend(rows(&blocks.iter().map(mark).collect::<Vec<_>>()));
                }
                Grid::Runs(runs, _) if runs.is_empty() => {
                    lines.push(format!("{subnet}: no address is reserved"));
                }
                Grid::Runs(runs, more) => {
                    lines.extend(runs.iter().map(|run| of_run(run, output)));
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
        let legend = shown.map(|cell| format!("{} {}", of_cell(*cell, output), cell.name()));
        lines.push(joined(legend, "   "));
    }
    if has_blocks {
        let names = ["empty", "to a third", "to two thirds", "more", "full"];
        let shades = SHADES.iter().zip(names);
        let shades = joined(shades.map(|(shade, name)| format!("{shade} {name}")), "   ");
        let leak = output.styled(Style::Red, "!");
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
fn rows(marks: &[(IpAddr, String)]) -> Vec<String> {
    let row = |row: &[(IpAddr, String)]| {
        let marks = joined(row.iter().map(|(_, mark)| format!(" {mark}")), "");
        let line = format!("{:<15} {marks}", row[0].0.to_string());
        line.trim_end().to_owned()
    };
    marks.chunks(ROW).map(row).collect()
}

fn of_cell(cell: Cell, output: Output) -> String {
    match cell {
        Cell::Outside => " ".to_owned(),
        Cell::Free => output.styled(Style::Dim, "·"),
        Cell::Reserved => output.styled(Style::Green, "█"),
        Cell::Excluded => "×".to_owned(),
        Cell::Gateway => output.styled(Style::Bold, "G"),
        Cell::Leaked => output.styled(Style::Red, "!"),
    }
}

fn of_block(block: &Block, output: Output) -> String {
    if block.leaked > 0 {
        return output.styled(Style::Red, "!");
    }
    if block.size == 0 {
        return " ".to_owned();
    }
    let shade = match block.reserved {
        0 => 0,
        reserved if reserved >= block.size => 4,
        reserved => usize::try_from(1 + reserved * 3 / block.size).unwrap_or(3),
    };
    output.styled(Style::Green, &SHADES[shade].to_string())
}

fn of_run(run: &Run, output: Output) -> String {
    let Run { addresses, cell } = run;
    let (mark, name) = (of_cell(*cell, output), cell.name());
    match addresses.size() {
        1 => format!("{mark} {} ({name})", addresses.first()),
        count => format!("{mark} {addresses} ({} {name})", large(count)),
    }
}

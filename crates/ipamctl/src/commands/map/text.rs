//! The picture of a pool as text: sixteen cells a row.

use crate::commands::map::Drawn;
use crate::commands::map::cells::{Block, Cell, Grid};
use crate::commands::pools::large;
use crate::output::{Output, Style};

/// Cells of a row.
const ROW: usize = 16;

/// Shades of a block, from empty to full.
const SHADES: [char; 5] = ['·', '░', '▒', '▓', '█'];

/// The lines of all pictures, and the legend.
pub(super) fn lines(drawn: &[Drawn<'_>], output: Output) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut has_cells, mut has_blocks) = (false, false);
    for it in drawn {
        let usage = it.known.usage();
        lines.push(output.styled(Style::Bold, &it.title));
        lines.push(format!(
            "{} reserved, {} free",
            large(usage.reserved),
            large(usage.free())
        ));
        for (subnet, grid) in it.known.grids() {
            lines.push(String::new());
            match grid {
                Grid::Addresses(cells) => {
                    has_cells = true;
                    let row = |row: &[(_, Cell)]| -> String {
                        row.iter()
                            .map(|(_, cell)| format!(" {}", of_cell(*cell, output)))
                            .collect()
                    };
                    let rows = cells.chunks(ROW);
                    lines.extend(rows.map(|it| format!("{:<15} {}", it[0].0.to_string(), row(it))));
                }
                Grid::Blocks(blocks) => {
                    has_blocks = true;
                    let row = |row: &[Block]| -> String {
                        row.iter()
                            .map(|it| format!(" {}", of_block(it, output)))
                            .collect()
                    };
                    let rows = blocks.chunks(ROW);
                    lines.extend(
                        rows.map(|it| format!("{:<15} {}", it[0].first.to_string(), row(it))),
                    );
                }
                Grid::Runs(runs, more) => {
                    if runs.is_empty() {
                        lines.push(format!("{subnet}: no address is reserved"));
                    }
                    for run in runs {
                        let count = large(run.addresses.size());
                        let cell = of_cell(run.cell, output);
                        let name = run.cell.name();
                        let first = run.addresses.first();
                        lines.push(if first == run.addresses.last() {
                            format!("{cell} {first} ({name})")
                        } else {
                            format!("{cell} {} ({count} {name})", run.addresses)
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
        let legend = Cell::ALL.map(|cell| format!("{} {}", of_cell(cell, output), cell.name()));
        lines.push(legend[..5].join("   "));
    }
    if has_blocks {
        lines.push(format!(
            "one cell is a /24, or more of a large subnet: {} empty   {} to a third   {} to two thirds   {} more   {} full   {} with leaks",
            SHADES[0], SHADES[1], SHADES[2], SHADES[3], SHADES[4],
            output.styled(Style::Red, "!"),
        ));
    }
    for line in &mut lines {
        line.truncate(line.trim_end().len());
    }
    if lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
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

//! The picture of a pool as SVG: light or dark, as the reader's browser asks for, with a
//! title for each cell.

use std::net::IpAddr;

use svg::Document;
use svg::node::element::{Group, Rectangle, Style, Text, Title};

use crate::commands::map::Drawn;
use crate::commands::map::cells::{Block, Cell, Grid, Run};
use crate::commands::pools::large;
use crate::output::plain;

/// Cells of a row.
const ROW: usize = 16;
/// Most cells of a picture: 64 networks of a /24. A browser draws it, and it fits into memory.
const MOST_CELLS: usize = 16_384;
/// Side of a cell, with its gap.
const PITCH: usize = 24;
const SIDE: usize = 20;
const MARGIN: usize = 24;
/// Width of the addresses to the left of the cells.
const LABEL: usize = 120;
const WIDTH: usize = MARGIN + LABEL + ROW * PITCH + MARGIN;
const LINE: usize = 22;

const STYLE: &str = "
svg { background: #ffffff; font: 13px system-ui, sans-serif; }
text { fill: #24292f; } text.small { fill: #57606a; } text.cell { font-size: 11px; text-anchor: middle; }
.free { fill: #e6e9ed; } .reserved { fill: #2f6fde; } .leaked { fill: #d1242f; }
.excluded { fill: #b9a4d8; } .gateway { fill: #9a6700; }
.outside { fill: none; stroke: #d0d7de; stroke-dasharray: 2 2; }
text.on { fill: #ffffff; }
@media (prefers-color-scheme: dark) {
  svg { background: #0d1117; }
  text { fill: #e6edf3; } text.small { fill: #8d96a0; }
  .free { fill: #2b323b; } .reserved { fill: #4493f8; } .leaked { fill: #f85149; }
  .excluded { fill: #8264b0; } .gateway { fill: #d29922; }
  .outside { fill: none; stroke: #3d444d; }
  text.on { fill: #0d1117; }
}";

/// The picture of a network's pools.
pub(super) fn picture(name: &str, drawn: &[Drawn<'_>]) -> String {
    let mut canvas = Canvas {
        document: Document::new()
            .set("role", "img")
            .add(Title::new(plain(&format!("Addresses of {name}"))))
            .add(Style::new(STYLE)),
        y: MARGIN,
        cells: 0,
    };
    for it in drawn {
        canvas.pool(it);
    }
    let grids = drawn.iter().flat_map(|it| it.known.grids());
    let has_blocks = grids
        .into_iter()
        .any(|(_, grid)| matches!(grid, Grid::Blocks(_)));
    canvas.legend(has_blocks);
    let height = canvas.y + MARGIN;
    let document = canvas
        .document
        .set("viewBox", (0, 0, WIDTH, height))
        .set("width", WIDTH)
        .set("height", height);
    format!("{document}\n")
}

struct Canvas {
    document: Document,
    /// Lower end of what is drawn.
    y: usize,
    /// Number of cells that are drawn.
    cells: usize,
}

impl Canvas {
    fn add(&mut self, node: impl Into<Box<dyn svg::Node>>) {
        svg::Node::append(&mut self.document, node);
    }

    fn text(&mut self, x: usize, class: &str, content: impl Into<String>) {
        let text = Text::new(plain(&content.into()))
            .set("x", x)
            .set("y", self.y + 14);
        self.add(text.set("class", class.to_owned()));
    }

    fn pool(&mut self, it: &Drawn<'_>) {
        self.text(MARGIN, "", it.title.clone());
        self.y += LINE;
        let usage = it.known.usage();
        let counts = format!(
            "{} reserved, {} free",
            large(usage.reserved),
            large(usage.free())
        );
        self.text(MARGIN, "small", counts);
        self.y += LINE + 8;
        for (subnet, grid) in it.known.grids() {
            self.cells += match &grid {
                Grid::Addresses(cells) => cells.len(),
                Grid::Blocks(blocks) => blocks.len(),
                Grid::Runs(runs, _) => runs.len(),
            };
            if self.cells > MOST_CELLS {
                let text = format!("{subnet}: not drawn, since the picture has {MOST_CELLS} cells");
                self.text(MARGIN, "small", text);
                self.y += PITCH;
                continue;
            }
            match grid {
                Grid::Addresses(cells) => self.rows(
                    &cells,
                    |it, canvas, x, (ip, cell)| {
                        canvas.address(it, x, *ip, *cell);
                    },
                    |(ip, _)| *ip,
                    it,
                ),
                Grid::Blocks(blocks) => {
                    self.rows(
                        &blocks,
                        |_, canvas, x, block| canvas.block(x, block),
                        |it| it.first,
                        it,
                    );
                }
                Grid::Runs(runs, more) => self.runs(&subnet.to_string(), &runs, more, it),
            }
            self.y += 12;
        }
    }

    fn rows<'d, T>(
        &mut self,
        cells: &[T],
        draw: impl Fn(&Drawn<'d>, &mut Self, usize, &T),
        first: impl Fn(&T) -> IpAddr,
        it: &Drawn<'d>,
    ) {
        for row in cells.chunks(ROW) {
            self.text(MARGIN, "small", first(&row[0]).to_string());
            for (column, cell) in row.iter().enumerate() {
                draw(it, self, MARGIN + LABEL + column * PITCH, cell);
            }
            self.y += PITCH;
        }
    }

    fn address(&mut self, it: &Drawn<'_>, x: usize, ip: IpAddr, cell: Cell) {
        let holder = it.holders.get(&ip).map(|holder| format!(", {holder}"));
        let title = format!("{ip}: {}{}", cell.name(), holder.unwrap_or_default());
        let mut group =
            Group::new()
                .add(Title::new(plain(&title)))
                .add(square(x, self.y, class(cell)));
        let letter = match cell {
            Cell::Gateway => "G",
            Cell::Leaked => "!",
            Cell::Excluded => "×",
            _ => "",
        };
        if !letter.is_empty() {
            group = group.add(
                Text::new(letter)
                    .set("class", "cell on")
                    .set("x", x + SIDE / 2)
                    .set("y", self.y + 14),
            );
        }
        self.add(group);
    }

    /// A block, shaded by how full it is.
    fn block(&mut self, x: usize, block: &Block) {
        if block.size == 0 {
            let title = format!("{}/{}: outside", block.first, block.prefix);
            let group = Group::new().add(Title::new(plain(&title)));
            return self.add(group.add(square(x, self.y, "outside")));
        }
        let leaks = match block.leaked {
            0 => String::new(),
            leaked => format!(", {leaked} leaked"),
        };
        let title = format!(
            "{}/{}: {} of {} reserved{leaks}",
            block.first, block.prefix, block.reserved, block.size
        );
        #[expect(clippy::cast_precision_loss, reason = "it is a shade")]
        let full = block.reserved as f64 / block.size as f64;
        let mut group = Group::new()
            .add(Title::new(plain(&title)))
            .add(square(x, self.y, "free"));
        if block.reserved > 0 {
            // Something is visible of a single address.
            let opacity = format!("{:.2}", 0.15 + 0.85 * full);
            group = group.add(square(x, self.y, "reserved").set("fill-opacity", opacity));
        }
        if block.leaked > 0 {
            let corner = Rectangle::new()
                .set("class", "leaked")
                .set("x", x + SIDE - 8)
                .set("y", self.y)
                .set("width", 8)
                .set("height", 8);
            group = group.add(corner);
        }
        self.add(group);
    }

    fn runs(&mut self, subnet: &str, runs: &[Run], more: usize, it: &Drawn<'_>) {
        if runs.is_empty() {
            self.text(MARGIN, "small", format!("{subnet}: no address is reserved"));
            self.y += PITCH;
        }
        for run in runs {
            let count = run.addresses.size();
            let first = run.addresses.first();
            let holder = it.holders.get(&first).filter(|_| count == 1);
            let holder = holder
                .map(|holder| format!(", {holder}"))
                .unwrap_or_default();
            let title = format!(
                "{}: {} {}{holder}",
                run.addresses,
                large(count),
                run.cell.name()
            );
            let group = Group::new().add(Title::new(plain(&title))).add(square(
                MARGIN,
                self.y,
                class(run.cell),
            ));
            self.add(group);
            let text = match count {
                1 => first.to_string(),
                _ => format!("{} ({})", run.addresses, large(count)),
            };
            self.text(MARGIN + PITCH + 4, "", text);
            self.y += PITCH;
        }
        if more > 0 {
            self.text(MARGIN, "small", format!("and {more} more runs"));
            self.y += PITCH;
        }
    }

    fn legend(&mut self, has_blocks: bool) {
        self.y += 4;
        let mut x = MARGIN;
        for cell in Cell::ALL {
            self.add(square(x, self.y, class(cell)));
            self.text(x + PITCH, "small", cell.name());
            x += PITCH + 14 + 7 * cell.name().len();
        }
        self.y += PITCH;
        if has_blocks {
            self.text(
                MARGIN,
                "small",
                "A cell is a /24, or more of a large subnet, shaded by how full it is.",
            );
            self.y += LINE;
        }
    }
}

fn square(x: usize, y: usize, class: &'static str) -> Rectangle {
    Rectangle::new()
        .set("class", class)
        .set("x", x)
        .set("y", y)
        .set("width", SIDE)
        .set("height", SIDE)
        .set("rx", 3)
}

fn class(cell: Cell) -> &'static str {
    match cell {
        Cell::Outside => "outside",
        Cell::Free => "free",
        Cell::Reserved => "reserved",
        Cell::Excluded => "excluded",
        Cell::Gateway => "gateway",
        Cell::Leaked => "leaked",
    }
}

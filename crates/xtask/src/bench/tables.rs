//! The figures as tables, in Markdown.

use std::fmt;
use std::iter::once;

use super::contender::Kind;
use super::figures::Figures;
use super::{calls, throughput};

/// A table: the first column is text, the others are figures.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    fn new(header: impl IntoIterator<Item = String>) -> Self {
        let header: Vec<String> = header.into_iter().collect();
        let rule = |i: usize| if i == 0 { ":--" } else { "--:" }.to_owned();
        let rule = (0..header.len()).map(rule).collect();
        Self {
            rows: vec![header, rule],
        }
    }

    fn row(&mut self, first: String, cells: impl IntoIterator<Item = String>) {
        self.rows.push(once(first).chain(cells).collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rows
            .iter()
            .try_for_each(|row| writeln!(f, "| {} |", row.join(" | ")))
    }
}

/// All of them.
pub(crate) fn all(figures: &Figures) -> [Table; 4] {
    [
        calls(figures),
        throughput(figures),
        sizes(figures),
        goals(figures),
    ]
}

/// A column for each contender, and one for its ratio to the peer.
fn with_ratios(figures: &Figures, first: &str) -> Table {
    let columns = figures
        .contenders
        .iter()
        .flat_map(|it| [it.name.clone(), "× peer".to_owned()]);
    Table::new(once(first.to_owned()).chain(columns))
}

fn calls(figures: &Figures) -> Table {
    let mut table = with_ratios(figures, "median (p99), ms");
    for reserved in calls::RESERVED {
        for command in calls::COMMANDS {
            let peer = figures.median(Kind::Peer, command, reserved);
            let cells = figures.contenders.iter().flat_map(|it| {
                let time = |percent| figures.time(it.kind, command, reserved, percent);
                let (median, p99) = (time(50), time(99));
                let ratio = median / peer;
                [format!("{median:.2} ({p99:.2})"), format!("{ratio:.2}")]
            });
            table.row(format!("{command}, {reserved} reserved"), cells);
        }
    }
    table
}

fn throughput(figures: &Figures) -> Table {
    let mut table = with_ratios(figures, "ADDs a second");
    for callers in throughput::CALLERS {
        let peer = figures.rate(Kind::Peer, callers);
        let cells = figures.contenders.iter().flat_map(|it| {
            let rate = figures.rate(it.kind, callers);
            [format!("{rate:.0}"), format!("{:.2}", rate / peer)]
        });
        table.row(format!("{callers} at a time"), cells);
    }
    table
}

fn sizes(figures: &Figures) -> Table {
    let names = figures.contenders.iter().map(|it| it.name.clone());
    let mut table = Table::new(once("MiB".to_owned()).chain(names));
    for (what, unit, all) in [
        ("peak memory of an ADD", 1024.0, &figures.peak),
        ("size on disk", 1024.0 * 1024.0, &figures.size),
    ] {
        let figure = |value: &u64| match value {
            0 => "–".to_owned(),
            value => format!("{:.1}", *value as f64 / unit),
        };
        table.row(what.to_owned(), all.iter().map(figure));
    }
    table
}

fn goals(figures: &Figures) -> Table {
    let header = ["goal", "asked for", "measured", ""];
    let mut table = Table::new(header.map(str::to_owned));
    for goal in figures.goals() {
        let met = if goal.met { "met" } else { "not met" };
        table.row(goal.what, [goal.goal, goal.value, met.to_owned()]);
    }
    table
}

//! Tables of a comparison of chains.

use std::iter::once;

use super::contender::Kind;
use super::figures::Figures;
use super::table::{Table, figure};
use super::{calls, throughput};

/// All tables, in the order of printing.
pub(crate) fn all(figures: &Figures) -> [Table; 4] {
    [
        calls(figures),
        throughput(figures),
        sizes(figures),
        goals(figures),
    ]
}

/// A table with a column for each contender, and one for its ratio to the peer.
fn with_ratios(figures: &Figures, first: &str) -> Table {
    let columns = figures
        .contenders
        .iter()
        .flat_map(|contender| [contender.name.clone(), "× peer".to_owned()]);
    Table::new(once(first.to_owned()).chain(columns))
}

fn calls(figures: &Figures) -> Table {
    let mut table = with_ratios(figures, "median (p99), ms");
    for reserved in calls::RESERVED {
        for command in calls::COMMANDS {
            let peer = figures.median(Kind::Peer, command, reserved);
            let cells = figures.contenders.iter().flat_map(|contender| {
                let time = |percent| figures.time(contender.kind, command, reserved, percent);
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
        let cells = figures.contenders.iter().flat_map(|contender| {
            let rate = figures.rate(contender.kind, callers);
            [format!("{rate:.0}"), format!("{:.2}", rate / peer)]
        });
        table.row(format!("{callers} at a time"), cells);
    }
    table
}

fn sizes(figures: &Figures) -> Table {
    let names = figures
        .contenders
        .iter()
        .map(|contender| contender.name.clone());
    let mut table = Table::new(once("MiB".to_owned()).chain(names));
    for (what, unit, all) in [
        ("peak memory of an ADD", 1024.0, &figures.peak),
        ("size on disk", 1024.0 * 1024.0, &figures.size),
    ] {
        let cell = |value: &u64| match value {
            0 => figure(f64::NAN, 1),
            value => figure(*value as f64 / unit, 1),
        };
        table.row(what.to_owned(), all.iter().map(cell));
    }
    table
}

fn goals(figures: &Figures) -> Table {
    let mut table = Table::new(["goal", "asked for", "measured", ""]);
    for goal in figures.goals() {
        let met = if goal.met { "met" } else { "not met" };
        table.row(goal.what, [goal.goal, goal.value, met.to_owned()]);
    }
    table
}

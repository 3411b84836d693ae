//! Our chain beside host-local: single calls, and many callers at once.

use std::path::Path;

use anyhow::Result;

use crate::contender::Contender;
use crate::crowd::crowd;
use crate::fill::Fill;
use crate::samples::Samples;
use crate::side::Side;
use crate::table::{Table, figure};

/// The commands of [`Side::round`].
const COMMANDS: [&str; 2] = ["ADD", "DEL"];

/// Numbers of addresses that are reserved before single calls are measured.
const RESERVED: [u32; 2] = [0, 250];

/// Number of concurrent callers, and of the containers that they add together.
const CALLERS: usize = 16;
const CONTAINERS: usize = 192;

/// Number of measurements with concurrent callers, of which the median is used.
const CROWDS: usize = 5;

/// Index of the peer among the contenders.
const PEER: usize = 1;

/// Medians of single calls in milliseconds.
pub(crate) fn calls(contenders: &[Contender], data: &Path, rounds: usize) -> Result<Table> {
    let mut table = with_ratios(contenders, "medians in ms");
    for reserved in RESERVED {
        let new = |contender| Side::new(contender, data, Fill::Count(reserved));
        let sides = contenders.iter().map(new).collect::<Result<Vec<_>>>()?;
        let mut times = COMMANDS.map(|_| vec![Samples::default(); sides.len()]);
        for round in 0..rounds {
            // The first contender finds the others' data in the processor's caches, so each round
            // begins with another one.
            for i in 0..sides.len() {
                let at = (i + round) % sides.len();
                let measured = sides[at].round(&format!("c{round:063x}"))?;
                for (of_command, time) in times.iter_mut().zip(measured) {
                    of_command[at].push(time);
                }
            }
        }
        for (command, of_command) in COMMANDS.iter().zip(&times) {
            let medians: Vec<f64> = of_command.iter().map(Samples::median).collect();
            let name = format!("{command}, {}", Fill::Count(reserved).name());
            add_row(&mut table, name, &medians, 2);
        }
    }
    Ok(table)
}

/// ADDs per second with concurrent callers.
pub(crate) fn throughput(contenders: &[Contender], data: &Path) -> Result<Table> {
    let mut table = with_ratios(contenders, "ADDs a second");
    let mut times = vec![Samples::default(); contenders.len()];
    for round in 0..CROWDS {
        for i in 0..contenders.len() {
            let at = (i + round) % contenders.len();
            let side = Side::new(&contenders[at], data, Fill::Count(0))?;
            let add = |number| side.call("ADD", &format!("c{number:063x}")).map(drop);
            times[at].push(crowd(CALLERS, CONTAINERS, &add)?);
        }
    }
    let rate = |times: &Samples| CONTAINERS as f64 * 1e3 / times.median();
    let rates: Vec<f64> = times.iter().map(rate).collect();
    add_row(&mut table, format!("{CALLERS} at a time"), &rates, 0);
    Ok(table)
}

/// A table with a column for each contender, and one for each one's ratio to the peer.
fn with_ratios(contenders: &[Contender], first: &str) -> Table {
    let mut columns = vec![first.to_owned()];
    for (i, contender) in contenders.iter().enumerate() {
        columns.push(contender.name.clone());
        if i != PEER {
            columns.push("× peer".to_owned());
        }
    }
    Table::new(columns)
}

/// Adds a row of [`with_ratios`].
fn add_row(table: &mut Table, name: String, values: &[f64], digits: usize) {
    let mut cells = Vec::new();
    for (i, value) in values.iter().enumerate() {
        cells.push(figure(*value, digits));
        if i != PEER {
            cells.push(figure(value / values[PEER], 2));
        }
    }
    table.row(name, cells);
}

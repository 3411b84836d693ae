//! Our chain beside host-local, in pools that are full or nearly full.

use std::path::Path;

use anyhow::Result;

use crate::contender::Contender;
use crate::fill::Fill;
use crate::samples::Samples;
use crate::side::Side;
use crate::table::{Table, figure};

/// Pools whose calls are measured in turn. A call that reads a whole directory empties the
/// processor's caches, so pools in which ADD does that are not among others.
const GROUPS: [&[Fill]; 3] = [
    &[Fill::Count(0), Fill::Count(60_000)],
    &[Fill::NearlyFull],
    &[Fill::All],
];

/// Numbers of ADDs, and of DELs of an attachment without addresses, which read the directory, in the
/// first group. The peer reads it in each call.
const OURS: [usize; 2] = [101, 11];
const PEER: [usize; 2] = [5, 3];

/// Times of ADD, DEL, and a DEL of an attachment without addresses.
type Times = [Samples; 3];

/// The commands of [`Times`]. The last one reads the whole directory.
const COMMANDS: [&str; 3] = ["ADD", "DEL", "DEL of nothing"];

/// The table of ours and of the peer.
pub(crate) fn measure(ours: &Contender, peer: &Contender, data: &Path) -> Result<Table> {
    let mut table = Table::new([
        "of 65,533 addresses, medians in ms",
        &ours.name,
        "× empty",
        &peer.name,
        "× peer",
    ]);
    let mut empty: Option<Times> = None;
    for group in GROUPS {
        let ours = times(ours, group, OURS, data)?;
        let theirs = times(peer, group, PEER, data)?;
        let empty = empty.get_or_insert_with(|| ours[0].clone());
        for ((fill, ours), theirs) in group.iter().zip(&ours).zip(&theirs) {
            let of_command = COMMANDS.iter().zip(ours).zip(empty.iter().zip(theirs));
            for ((command, ours), (empty, theirs)) in of_command {
                let [ours, empty, theirs] = [ours, empty, theirs].map(Samples::median);
                let cells = [
                    figure(ours, 2),
                    figure(ours / empty, 2),
                    figure(theirs, 2),
                    figure(ours / theirs, 3),
                ];
                if !ours.is_nan() {
                    table.row(format!("{command}, {}", fill.name()), cells);
                }
            }
        }
    }
    Ok(table)
}

/// Times of a contender in each of these pools.
fn times(
    contender: &Contender,
    fills: &[Fill],
    [adds, idle]: [usize; 2],
    data: &Path,
) -> Result<Vec<Times>> {
    let side = |fill: &Fill| Side::new(contender, data, *fill);
    let sides: Vec<Side> = fills.iter().map(side).collect::<Result<_>>()?;
    let mut times: Vec<Times> = vec![Default::default(); fills.len()];
    for round in 0..adds {
        for ((side, fill), [add, del, _]) in sides.iter().zip(fills).zip(&mut times) {
            let container = format!("bench-{round}");
            if *fill == Fill::All {
                add.push(side.refused_add(&container)?);
            } else {
                add.push(side.call("ADD", &container)?);
                del.push(side.call("DEL", &container)?);
            }
        }
    }
    let idle = if fills == GROUPS[0] { idle } else { 0 };
    for _ in 0..idle {
        for (side, [_, _, nothing]) in sides.iter().zip(&mut times) {
            nothing.push(side.call("DEL", "nothing")?);
        }
    }
    Ok(times)
}

//! `cargo xtask bench allocator`: ADD and DEL of the allocator, with different numbers of reserved
//! addresses.

use std::path::Path;

use anyhow::{Result, ensure};

use super::contender::{self, Contender};
use super::fill::Fill;
use super::folders::folder_in;
use super::samples::Samples;
use super::side::{Side, Storage};
use super::table::{Table, figure};
use xtask::build::target_dir;

/// Number of calls of our contenders. The peer is slower, and gets fewer.
const ROUNDS: usize = 101;

const FILLS: [Fill; 8] = [
    Fill::Count(0),
    Fill::Count(250),
    Fill::Count(4_000),
    Fill::Count(16_000),
    Fill::Count(60_000),
    Fill::NearlyFull,
    Fill::Full,
    Fill::SixtyThousandOf64,
];

/// Both contenders with the same addresses reserved.
struct Level {
    fill: Fill,
    ours: Measured,
    theirs: Measured,
}

struct Measured {
    side: Side,
    add: Samples,
    del: Samples,
    /// DEL of an attachment without addresses.
    idle_del: Samples,
}

impl Measured {
    fn new(contender: &Contender, storage: &Storage, fill: Fill) -> Result<Self> {
        Ok(Self {
            side: Side::new(contender, storage, fill)?,
            add: Samples::default(),
            del: Samples::default(),
            idle_del: Samples::default(),
        })
    }

    fn round(&mut self, fill: Fill, round: usize) -> Result<()> {
        let container = format!("bench-{round}");
        let (time, success) = self.side.plugin.call("ADD", &container)?;
        ensure!(success == (fill != Fill::Full), "ADD with {}", fill.name());
        self.add.push(time);
        // After a refused ADD, there is no address to release.
        if fill != Fill::Full {
            self.del.push(self.side.call("DEL", &container)?);
        }
        self.idle_del.push(self.side.call("DEL", &container)?);
        Ok(())
    }
}

pub(crate) fn run(peer: &Path, storage: &Storage) -> Result<()> {
    println!("Building …");
    let installed = folder_in(&target_dir())?;
    let [ours, theirs] = contender::allocators(peer, installed.path())?;
    println!("Making reservations …");
    let level = |fill: &Fill| -> Result<Level> {
        Ok(Level {
            fill: *fill,
            ours: Measured::new(&ours, storage, *fill)?,
            theirs: Measured::new(&theirs, storage, *fill)?,
        })
    };
    let mut levels = FILLS.iter().map(level).collect::<Result<Vec<_>>>()?;
    println!(
        "Measuring: {ROUNDS} rounds, all levels in each, ours and {} in turn …",
        peer.display()
    );
    for round in 0..ROUNDS {
        for level in &mut levels {
            level.ours.round(level.fill, round)?;
            if round % every(level.fill) == 0 {
                level.theirs.round(level.fill, round)?;
            }
        }
    }
    println!("\n{}", table(&levels));
    let (fastest, slowest) = collection(&ours, storage)?;
    println!(
        "GC that finds 10,000 of 20,000 reservations stale: {fastest:.0} to {slowest:.0} ms (of five)."
    );
    Ok(())
}

/// The interval of rounds in which the peer is called.
fn every(fill: Fill) -> usize {
    match fill {
        Fill::Count(0..1_000) => 1,
        Fill::Count(1_000..10_000) => 4,
        _ => 20,
    }
}

fn table(levels: &[Level]) -> Table {
    let header = [
        "reserved; medians in ms",
        "ADD",
        "host-local",
        "× host-local",
        "DEL",
        "host-local",
        "× host-local",
        "DEL of nothing",
    ];
    let mut table = Table::new(header);
    for Level { fill, ours, theirs } in levels {
        let pair = |ours: &Samples, theirs: &Samples| {
            let (ours, theirs) = (ours.median(), theirs.median());
            [figure(ours, 2), figure(theirs, 1), figure(ours / theirs, 3)]
        };
        let add = pair(&ours.add, &theirs.add);
        let del = pair(&ours.del, &theirs.del);
        let idle = figure(ours.idle_del.median(), 2);
        table.row(fill.name(), add.into_iter().chain(del).chain([idle]));
    }
    table
}

/// Time of a GC that finds 10,000 of 20,000 reservations stale: the fastest and the slowest of
/// five runs, in milliseconds.
fn collection(contender: &Contender, storage: &Storage) -> Result<(f64, f64)> {
    let mut times = Samples::default();
    for _ in 0..5 {
        let side = Side::new(contender, storage, Fill::Count(20_000))?;
        times.push(side.collect_half(20_000)?);
        let left = std::fs::read_dir(side.network())?.count();
        ensure!(left < 10_010, "GC left {left} files");
    }
    Ok((times.percentile(0), times.percentile(100)))
}

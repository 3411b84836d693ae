//! What ADD and DEL cost with ever more addresses reserved.

use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::bench::contender::install;
use crate::bench::folders::{folder_in, in_memory};
use crate::bench::process::Plugin;
use crate::bench::samples::Samples;
use crate::build::Flavour;

/// What does host-local's work in our chains.
const ALLOCATOR: &str = "ipam-da-host-local";

/// How often each of ours is called; the peer, which is slower, less often.
const ROUNDS: usize = 101;

/// What is reserved before the measurement.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fill {
    /// So many of a /16, one after the other.
    Count(u32),
    /// 65,000 of a /16, with the free ones scattered.
    NearlyFull,
    /// All of a /16.
    Full,
    /// 60,000 of a /64 of IPv6.
    SixtyThousandOf64,
}

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

impl Fill {
    fn name(self) -> String {
        match self {
            Self::Count(count) => format!("{count} of 65,533 reserved"),
            Self::NearlyFull => "65,000 of 65,533, the free ones scattered".to_owned(),
            Self::Full => "all 65,533: ADD is refused".to_owned(),
            Self::SixtyThousandOf64 => "60,000 of an IPv6 /64".to_owned(),
        }
    }

    fn subnet(self) -> &'static str {
        match self {
            Self::SixtyThousandOf64 => "fd00:10::/64",
            _ => "10.10.0.0/16",
        }
    }

    /// The addresses that are reserved. The /16's can-be-given are .0.2 to .255.254.
    fn addresses(self) -> Vec<String> {
        let v4 = |n: u32| Ipv4Addr::from(0x0a0a_0000 + n).to_string();
        let all = 2..=65_534;
        match self {
            Self::Count(count) => all.take(count as usize).map(v4).collect(),
            Self::Full => all.map(v4).collect(),
            // Every 123rd is free: 533 of them.
            Self::NearlyFull => all.filter(|n| n % 123 != 0).map(v4).collect(),
            Self::SixtyThousandOf64 => (2..60_002u128)
                .map(|n| Ipv6Addr::from((0xfd00_0010_u128 << 96) + n).to_string())
                .collect(),
        }
    }
}

/// A directory of reservations for each of the two, filled alike.
struct Level {
    fill: Fill,
    ours: Side,
    theirs: Side,
}

struct Side {
    plugin: Plugin,
    add: Samples,
    del: Samples,
    /// DEL of what was never added.
    idle_del: Samples,
    folders: [TempDir; 2],
}

impl Side {
    fn new(executable: &Path, fill: Fill, hand_over_pools: bool) -> Result<Self> {
        let data = folder_in(&Flavour::Normal.target_dir())?;
        let cache = folder_in(&in_memory())?;
        let network = data.path().join("networks/bench");
        fs::create_dir_all(&network)?;
        for (i, ip) in fill.addresses().iter().enumerate() {
            fs::write(network.join(ip), format!("{}\r\neth0", holder(i)))?;
        }
        let ranges = json!([{ "subnet": fill.subnet() }]);
        let mut config: Value = json!({
            "cniVersion": "1.0.0", "name": "bench",
            "ipam": {
                "type": "host-local",
                "dataDir": data.path().join("networks"),
                "cacheDir": cache.path()
            }
        });
        if hand_over_pools {
            config["prevResult"] = json!({ "pools": [{ "ranges": ranges }] });
        } else {
            config["ipam"]["ranges"] = json!([ranges]);
        }
        let stdin = data.path().join("config.json");
        fs::write(&stdin, serde_json::to_vec(&config)?)?;
        let it = Self {
            plugin: Plugin::new(executable, &stdin),
            add: Samples::default(),
            del: Samples::default(),
            idle_del: Samples::default(),
            folders: [data, cache],
        };
        // The rotation goes on behind what is reserved, and files are cached.
        it.plugin.call("ADD", "first")?;
        it.plugin.call("DEL", "first")?;
        Ok(it)
    }

    fn network(&self) -> PathBuf {
        self.folders[0].path().join("networks/bench")
    }

    fn round(&mut self, fill: Fill, round: usize) -> Result<()> {
        let container = format!("bench-{round}");
        let (time, success) = self.plugin.call("ADD", &container)?;
        ensure!(success == (fill != Fill::Full), "ADD with {}", fill.name());
        self.add.push(time);
        let (time, success) = self.plugin.call("DEL", &container)?;
        ensure!(success, "DEL with {}", fill.name());
        // With nothing given, there is nothing to be taken back.
        if fill == Fill::Full {
            self.idle_del.push(time);
            return Ok(());
        }
        self.del.push(time);
        let (time, _) = self.plugin.call("DEL", &container)?;
        self.idle_del.push(time);
        Ok(())
    }
}

/// How long a GC takes that finds 10,000 of 20,000 reservations stale: the
/// fastest and the slowest of some, in milliseconds.
fn collection(executable: &Path) -> Result<(f64, f64)> {
    let mut times = Samples::default();
    for _ in 0..5 {
        let side = Side::new(executable, Fill::Count(20_000), true)?;
        let mut config: Value = serde_json::from_slice(&fs::read(side.plugin.config())?)?;
        let valid: Vec<Value> = (0..20_000)
            .step_by(2)
            .map(|i| json!({"containerID": holder(i), "ifname": "eth0"}))
            .collect();
        config["cniVersion"] = json!("1.1.0");
        config["cni.dev/valid-attachments"] = json!(valid);
        fs::write(side.plugin.config(), serde_json::to_vec(&config)?)?;
        let (time, success) = side.plugin.call("GC", "-")?;
        ensure!(success, "GC failed");
        times.push(time);
        let left = fs::read_dir(side.network())?.count();
        ensure!(left < 10_010, "GC left {left} files");
    }
    Ok((times.percentile(0), times.percentile(100)))
}

/// The container that holds the address of this number.
fn holder(i: usize) -> String {
    format!("{i:064x}")
}

pub(crate) fn run(peer: &Path) -> Result<()> {
    println!("Building …");
    let ours = Flavour::Normal
        .build_static(&[ALLOCATOR])?
        .separate
        .join(ALLOCATOR);
    let installed = folder_in(&Flavour::Normal.target_dir())?;
    let ours = install(&ours, &installed.path().join("ours"))?;
    let theirs = install(peer, &installed.path().join("peer"))?;
    println!("Making reservations …");
    let mut levels = FILLS
        .iter()
        .map(|fill| {
            Ok(Level {
                fill: *fill,
                ours: Side::new(&ours, *fill, true)?,
                theirs: Side::new(&theirs, *fill, false)?,
            })
        })
        .collect::<Result<Vec<_>>>()?;
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
    print(&levels);
    let (fastest, slowest) = collection(&ours)?;
    println!(
        "\nGC that finds 10,000 of 20,000 reservations stale: {fastest:.0} to {slowest:.0} ms (of five)."
    );
    Ok(())
}

/// The peer is called in every round of so many.
fn every(fill: Fill) -> usize {
    match fill {
        Fill::Count(0..1_000) => 1,
        Fill::Count(1_000..10_000) => 4,
        _ => 20,
    }
}

fn print(levels: &[Level]) {
    let base = &levels[0].ours;
    println!(
        "\nMedians, in milliseconds. × host-local: ours by the peer's at the same level. × empty: ours by"
    );
    println!("ours with nothing reserved. Idle DEL: of an attachment that has nothing.\n");
    println!(
        "| reserved | ADD | host-local | × host-local | × empty | DEL | host-local | × host-local | × empty | idle DEL | × empty |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    for Level { fill, ours, theirs } in levels {
        let cells = [
            pair(&ours.add, &theirs.add, &base.add),
            pair(&ours.del, &theirs.del, &base.del),
            alone(&ours.idle_del, &base.del),
        ];
        println!("| {} | {} |", fill.name(), cells.join(" | "));
    }
}

fn pair(ours: &Samples, theirs: &Samples, base: &Samples) -> String {
    let (ours, theirs) = (ours.median(), theirs.median());
    [
        (ours, 2),
        (theirs, 1),
        (ours / theirs, 3),
        (ours / base.median(), 2),
    ]
    .map(figure)
    .join(" | ")
}

fn alone(ours: &Samples, base: &Samples) -> String {
    [(ours.median(), 2), (ours.median() / base.median(), 2)]
        .map(figure)
        .join(" | ")
}

fn figure((value, digits): (f64, usize)) -> String {
    if value.is_nan() {
        "–".to_owned()
    } else {
        format!("{value:.digits$}")
    }
}

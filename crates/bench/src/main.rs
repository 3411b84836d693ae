//! `cargo xtask bench`: measures the time of calls, and compares it with a peer in the same run.

mod allocator;
mod calls;
mod cluster;
mod contender;
mod docker;
mod drawing;
mod figures;
mod fill;
mod folders;
mod ipamctl;
mod memory;
mod process;
mod samples;
mod selectors;
mod side;
mod table;
mod tables;
mod throughput;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Result, ensure};
use clap::{Parser, Subcommand};
use harness::REFERENCE_PLUGINS;

use contender::{Contender, Kind};
use figures::Figures;
use fill::Fill;
use side::{Side, Storage};
use xtask::build::target_dir;

/// Measure how long calls take, beside the reference plugin in the same run.
#[derive(Parser)]
#[command(name = "cargo xtask bench")]
struct Bench {
    #[command(subcommand)]
    what: Option<What>,
    /// The host-local to compare with.
    #[arg(long, global = true, value_name = "PATH", default_value_os_t = default_peer())]
    peer: PathBuf,
    /// The folder for the figures, as bench.json and bench.svg. The documents show those
    /// in `docs`.
    #[arg(long, global = true, value_name = "DIR", default_value_os_t = default_folder())]
    out: PathBuf,
    /// The folder for reservations and records: memory by default, or a folder on the disk
    /// that is to be measured.
    #[arg(long, global = true, value_name = "DIR", default_value_os_t = folders::in_memory())]
    data: PathBuf,
    /// Use the directories for so many ADDs and DELs before they are measured, and keep
    /// them from round to round. By default, each measurement begins with fresh ones.
    #[arg(long, global = true, value_name = "TIMES", default_value_t = 0)]
    used: usize,
    /// Number of rounds: each makes every call once.
    #[arg(long, default_value_t = 400)]
    rounds: usize,
}

#[derive(Subcommand)]
enum What {
    /// ADD and DEL of ipam-da-host-local and of host-local, with ever more
    /// addresses reserved.
    Allocator,
    /// Docker's calls over the socket, with ever more addresses, beside a call that does
    /// nothing, and, as root, `docker network connect` beside Docker's own allocator.
    Docker,
    /// ADD with large catalogues of rules, with exclusions and with sticky keys, without a
    /// peer.
    Selectors,
    /// ADDs on a cluster's etcd, beside bare puts.
    Cluster(cluster::etcd::Cluster),
    /// ADDs on Kubernetes' API, beside bare creations and beside whereabouts.
    Kubernetes(cluster::kubernetes::Arguments),
    /// Commands of ipamctl on a full /16, and the waits of ADDs while it runs.
    Ipamctl,
}

fn default_peer() -> PathBuf {
    Path::new(REFERENCE_PLUGINS).join("host-local")
}

fn default_folder() -> PathBuf {
    target_dir().join("bench")
}

fn main() -> Result<()> {
    let bench = Bench::parse();
    // For a cluster, the peer is the engine itself.
    ensure!(
        bench.peer.exists() || matches!(bench.what, Some(What::Cluster(_) | What::Kubernetes(_))),
        "{} is not there: install Debian's containernetworking-plugins, or say --peer PATH",
        bench.peer.display()
    );
    // The folder is removed at the end of the run.
    let folder = folders::spreading_folder_in(&bench.data)?;
    let storage = Storage {
        folder: folder.path().to_owned(),
        used: bench.used,
    };
    match &bench.what {
        Some(What::Allocator) => allocator::run(&bench.peer, &storage),
        Some(What::Docker) => docker::run(&bench.data),
        Some(What::Selectors) => selectors::run(),
        Some(What::Ipamctl) => ipamctl::run(&bench.peer, &storage),
        Some(What::Cluster(arguments)) => cluster::etcd::run(arguments, &bench.out),
        Some(What::Kubernetes(arguments)) => cluster::kubernetes::run(arguments, &bench.out),
        None => chains(&bench, &storage),
    }
}

fn chains(bench: &Bench, storage: &Storage) -> Result<()> {
    println!("Building …");
    let installed = folders::folder_in(&target_dir())?;
    let contenders = contender::chains(&bench.peer, installed.path())?;
    let started = Instant::now();
    println!(
        "Measuring single calls: {} rounds, all in turn, the peer is {} …",
        bench.rounds,
        bench.peer.display()
    );
    let calls = calls::measure(&contenders, storage, bench.rounds.max(1))?;
    println!("Measuring many at a time …");
    let throughput = throughput::measure(&contenders, storage)?;
    let peak = contenders
        .iter()
        .map(|contender| peak(contender, storage))
        .collect::<Result<_>>()?;
    let size = contenders.iter().map(size).collect::<Result<_>>()?;
    let figures = Figures {
        contenders,
        rounds: bench.rounds.max(1),
        used: bench.used,
        calls,
        throughput,
        peak,
        size,
    };
    for table in tables::all(&figures) {
        println!("\n{table}");
    }
    fs::create_dir_all(&bench.out)?;
    let [json, drawing] = ["bench.json", "bench.svg"].map(|name| bench.out.join(name));
    fs::write(&json, format!("{:#}\n", figures.to_json()))?;
    svg::save(&drawing, &drawing::draw(&figures))?;
    println!(
        "Written: {} and {}. Measured for {} seconds.",
        json.display(),
        drawing.display(),
        started.elapsed().as_secs()
    );
    Ok(())
}

fn peak(contender: &Contender, storage: &Storage) -> Result<u64> {
    match contender.kind {
        // An empty program ends before its memory can be read.
        Kind::Minimum => Ok(0),
        _ => Side::new(contender, storage, Fill::Count(250))?.peak(),
    }
}

fn size(contender: &Contender) -> Result<u64> {
    let files = contender.files();
    let sizes = files.iter().map(|file| Ok(fs::metadata(file)?.len()));
    sizes.sum()
}

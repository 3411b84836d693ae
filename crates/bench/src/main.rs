//! `cargo xtask bench`: measures calls beside a peer in the same run, and prints the tables of
//! docs/performance.md.

mod contender;
mod crowd;
mod docker;
mod engine;
mod etcd;
mod fill;
mod folders;
mod kubernetes;
mod node;
mod plugin;
mod pools;
mod rules;
mod samples;
mod side;
mod table;

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use clap::{Parser, ValueEnum};
use harness::{REFERENCE_PLUGINS, kubernetes_programs, missing, target_dir};

use contender::contenders;
use table::Table;

/// Measure how long calls take, beside a peer in the same run.
#[derive(Parser)]
#[command(name = "cargo xtask bench")]
struct Bench {
    /// The tables; all if none is named.
    tables: Vec<Tables>,
    /// The host-local to compare with: by default the one beside the programs of a Kubernetes
    /// control plane, or else Debian's.
    #[arg(long, value_name = "PATH")]
    peer: Option<PathBuf>,
    /// The folder for reservations and records: memory by default, or a folder on the disk
    /// that is to be measured.
    #[arg(long, value_name = "DIR", default_value_os_t = folders::in_memory())]
    data: PathBuf,
    /// Number of rounds of single calls: each makes every call once.
    #[arg(long, default_value_t = 400)]
    rounds: usize,
    /// A contender: puts a key over a new connection.
    #[arg(long, hide = true, num_args = 2, value_names = ["SETTINGS", "KEY"])]
    bare_put: Vec<String>,
    /// A contender: creates the object of an address over a new connection.
    #[arg(long, hide = true, num_args = 2, value_names = ["KUBECONFIG", "IP"])]
    bare_creation: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Tables {
    /// Our chain beside host-local: single calls, and many callers at once.
    Node,
    /// The same in pools that are full or nearly full.
    Pools,
    /// Catalogues of 1 to 1,000 rules.
    Rules,
    /// A pool in etcd, beside bare puts and beside whereabouts; as root.
    Etcd,
    /// A pool in Kubernetes' API, beside bare creations and beside whereabouts; as root.
    Kubernetes,
    /// The daemon for Docker, beside calls that do nothing.
    Docker,
}

impl Bench {
    fn run(&self) -> Result<()> {
        let on_node = [Tables::Node, Tables::Pools, Tables::Rules];
        if on_node.iter().any(|tables| self.has(*tables)) {
            self.measure_node()?;
        }
        self.measure(Tables::Etcd, &etcd::NEEDS, etcd::measure)?;
        self.measure(Tables::Kubernetes, &kubernetes::NEEDS, kubernetes::measure)?;
        self.measure(Tables::Docker, &[], docker::measure)
    }

    fn has(&self, tables: Tables) -> bool {
        self.tables.is_empty() || self.tables.contains(&tables)
    }

    /// Prints a table, unless it isn't wanted or something that it needs is missing on this
    /// machine.
    fn measure(
        &self,
        tables: Tables,
        needs: &[&str],
        measure: impl FnOnce() -> Result<Table>,
    ) -> Result<()> {
        if self.has(tables) {
            println!("{tables:?} …");
            match needs.iter().find_map(|what| missing(what)) {
                Some(reason) => println!("left out: {reason}"),
                None => println!("\n{}", measure()?),
            }
        }
        Ok(())
    }

    fn measure_node(&self) -> Result<()> {
        let peer = self.peer();
        ensure!(
            peer.exists(),
            "{} is not there: install Debian's containernetworking-plugins, or say --peer PATH",
            peer.display()
        );
        println!("Building …");
        let installed = folders::folder_in(&target_dir())?;
        let contenders = contenders(&peer, installed.path())?;
        let [ours, peer, ..] = &contenders;
        self.measure(Tables::Node, &[], || {
            println!("\n{}", node::calls(&contenders, &self.data, self.rounds)?);
            node::throughput(&contenders, &self.data)
        })?;
        self.measure(Tables::Pools, &[], || {
            pools::measure(ours, peer, &self.data)
        })?;
        self.measure(Tables::Rules, &[], || {
            rules::measure(&ours.executable, &self.data)
        })
    }

    fn peer(&self) -> PathBuf {
        let of_runtimes = || Some(kubernetes_programs()?.join("host-local"));
        let peer = self.peer.clone().or_else(of_runtimes);
        peer.unwrap_or_else(|| Path::new(REFERENCE_PLUGINS).join("host-local"))
    }
}

fn main() -> Result<()> {
    let bench = Bench::parse();
    if let [settings, key] = &bench.bare_put[..] {
        return etcd::put(Path::new(settings), key);
    }
    if let [kubeconfig, ip] = &bench.bare_creation[..] {
        return kubernetes::create(Path::new(kubeconfig), ip.parse()?);
    }
    bench.run()
}

//! `cargo xtask bench cluster`: addresses out of a cluster's etcd, beside as many bare puts
//! over as many connections in the same run.

mod at_once;
mod blocks;
mod calls;
mod counters;
mod crowd;
mod figures;
mod filling;
mod interrupt;
mod one_at_a_time;
mod processes;
mod target;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Result, ensure};
use clap::Args;

use calls::Allocator;
use figures::Figures;
use target::Target;
use xtask::cargo;

/// Arguments of `cargo xtask bench cluster`.
#[derive(Args)]
pub(crate) struct Cluster {
    /// Client URLs of a cluster that is there, separated by commas.
    ///
    /// Without them, three members are started in network namespaces of this machine, with
    /// TLS and authentication and with their data in memory; that needs root and Debian's
    /// etcd-server and etcd-client.
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    endpoints: Vec<String>,
    /// File of the authority that signed the members' certificates.
    #[arg(long, value_name = "FILE", requires = "endpoints")]
    ca: Option<PathBuf>,
    /// File of the client's certificate.
    #[arg(long, value_name = "FILE", requires = "endpoints", requires = "key")]
    cert: Option<PathBuf>,
    /// File of the key of the client's certificate.
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// A user with rights on the prefix.
    #[arg(
        long,
        value_name = "NAME",
        requires = "endpoints",
        requires = "password_file"
    )]
    user: Option<String>,
    /// File of the user's password.
    #[arg(long, value_name = "FILE", requires = "user")]
    password_file: Option<PathBuf>,
    /// All keys are made in a new folder below this prefix, and removed at the end.
    #[arg(long, value_name = "PREFIX", default_value = "/ipam")]
    prefix: String,
}

/// Measures, and writes bench-cluster.json and bench-cluster.md to the folder.
pub(crate) fn run(arguments: &Cluster, out: &Path) -> Result<()> {
    if cfg!(debug_assertions) {
        // The callers are in this process.
        return again_in_release();
    }
    interrupt::watch()?;
    let target = Target::new(arguments)?;
    println!(
        "Keys are made below {}, and removed at the end.",
        target.prefix()
    );
    let started = Instant::now();
    let measured = measure(&target);
    // Also if something went wrong.
    let removed = target.remove_keys();
    let figures = measured?;
    removed?;
    for table in figures.tables() {
        println!("\n{table}");
    }
    fs::create_dir_all(out)?;
    let [json, text] = ["bench-cluster.json", "bench-cluster.md"].map(|name| out.join(name));
    fs::write(&json, format!("{:#}\n", figures.to_json()))?;
    fs::write(&text, figures.to_string())?;
    println!(
        "Written: {} and {}. Measured for {} seconds.",
        json.display(),
        text.display(),
        started.elapsed().as_secs()
    );
    Ok(())
}

fn measure(target: &Target) -> Result<Figures> {
    let allocator = Allocator::new(target)?;
    let started = Instant::now();
    let tell = |what: &str| println!("{:>4} s: {what} …", started.elapsed().as_secs());
    tell("many at once");
    let at_once = at_once::measure(target, &allocator)?;
    tell("processes");
    let processes = processes::measure(target, &allocator)?;
    tell("one at a time, with ever more addresses reserved");
    let one_at_a_time = one_at_a_time::measure(target, &allocator)?;
    tell("blocks");
    let blocks = blocks::measure(target)?;
    Ok(Figures {
        whose: target.whose(),
        at_once,
        processes,
        one_at_a_time,
        blocks,
    })
}

/// Runs the same command, built as the plugins are.
fn again_in_release() -> Result<()> {
    println!("Building with optimisation …");
    let mut again: Command = cargo::cargo(&["run", "--quiet", "--release", "--package", "bench"]);
    let status = again.arg("--").args(env::args_os().skip(1)).status()?;
    ensure!(status.success(), "the benchmark failed");
    Ok(())
}

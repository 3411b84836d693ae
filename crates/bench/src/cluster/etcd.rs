//! `cargo xtask bench cluster`: addresses out of a cluster's etcd, beside as many bare puts
//! over as many connections in the same run.

mod counters;
mod filling;
mod target;

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;

use super::{Progress, again_in_release, interrupt, measure, write};
use target::Etcd;

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
        // The callers run in this process.
        return again_in_release();
    }
    interrupt::watch()?;
    let target = Etcd::new(arguments)?;
    println!(
        "Keys are made below {}, and removed at the end.",
        target.prefix()
    );
    let progress = Progress::start();
    let measured = measure(&target, &progress);
    // The keys are also removed after an error.
    let removed = target.remove_keys();
    let figures = measured?;
    removed?;
    for table in figures.tables() {
        println!("\n{table}");
    }
    let page = figures.page(EXPLANATION);
    write(out, "bench-cluster", &figures.to_json(), &page, &progress)
}

/// The page's explanation of this cluster.
const EXPLANATION: &str = "\
With `--endpoints`, `--ca`, `--user` and `--password-file` it measures an existing cluster, below a
separate prefix, and removes its keys at the end.
";

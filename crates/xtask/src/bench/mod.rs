//! `cargo xtask bench`: how long calls take, beside a peer in the same run.

mod allocator;
mod process;
mod samples;

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use clap::{Args, Subcommand};
use harness::REFERENCE_PLUGINS;

/// What is measured, and beside what.
#[derive(Args)]
pub(crate) struct Bench {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// ADD and DEL of ipam-da-host-local and of host-local, with ever more
    /// addresses reserved.
    Allocator {
        /// The host-local to compare with.
        #[arg(long, value_name = "PATH", default_value_os_t = default_peer())]
        peer: PathBuf,
    },
}

fn default_peer() -> PathBuf {
    Path::new(REFERENCE_PLUGINS).join("host-local")
}

pub(crate) fn run(bench: Bench) -> Result<()> {
    match bench.what {
        What::Allocator { peer } => {
            ensure!(
                peer.exists(),
                "{} is not there: install Debian's containernetworking-plugins, or say --peer PATH",
                peer.display()
            );
            allocator::run(&peer)
        }
    }
}

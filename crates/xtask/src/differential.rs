//! `cargo xtask differential`: compares `host-local` with our selector and allocator on
//! any number of random cases.

use anyhow::Result;
use clap::Args;
use harness::reference;

use crate::build::{BUILT_PLUGINS, Flavour};
use crate::cargo::{self, cargo};

/// Arguments of `cargo xtask differential`.
#[derive(Args)]
pub struct Differential {
    /// Number of cases.
    #[arg(long, default_value_t = 100_000)]
    cases: u64,
    /// Seed of the first case; each further case has the next number.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs the differential test with the given number of cases.
///
/// # Errors
///
/// `host-local` is missing, a build fails, or the two plugins differ.
pub fn run(arguments: &Differential) -> Result<()> {
    anyhow::ensure!(
        reference("host-local").is_some(),
        "host-local is not there: install Debian's containernetworking-plugins"
    );
    // A release build tries more cases in the same time.
    let plugins = Flavour::Normal.build("release")?.separate;
    let mut test = cargo(&[
        "test",
        "--quiet",
        "--package",
        "end-to-end",
        "--test",
        "end_to_end",
    ]);
    test.args(["--", "--nocapture", "differential"])
        .env(BUILT_PLUGINS, plugins)
        .env("IPAM_DELEGATED_CASES", arguments.cases.to_string())
        .env("IPAM_DELEGATED_SEED", arguments.seed.to_string());
    cargo::run(&mut test)
}

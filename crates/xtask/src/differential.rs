//! `cargo xtask differential`: `host-local` and ours side by side, on as many
//! random cases as one has time for.

use anyhow::Result;
use clap::Args;
use harness::reference;

use crate::build::Flavour;
use crate::cargo::{self, cargo};

/// Which cases.
#[derive(Args)]
pub(crate) struct Differential {
    /// How many.
    #[arg(long, default_value_t = 100_000)]
    cases: u64,
    /// The first one's seed; each of the others has the next.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub(crate) fn run(arguments: &Differential) -> Result<()> {
    anyhow::ensure!(
        reference("host-local").is_some(),
        "host-local is not there: install Debian's containernetworking-plugins"
    );
    // In release mode, there are more cases in an hour.
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
        .env("IPAM_DELEGATED_PLUGINS", plugins)
        .env("IPAM_DELEGATED_CASES", arguments.cases.to_string())
        .env("IPAM_DELEGATED_SEED", arguments.seed.to_string());
    cargo::run(&mut test)
}

//! A second build of the same commit, elsewhere, that has to give the same bytes.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use harness::repository;

use super::SUMS;
use crate::build::{self, Flavour};
use crate::cargo::{cargo, run};

/// Why a clone would not have the same sources, if so.
pub(crate) fn why_not() -> Option<&'static str> {
    match build::commit() {
        None => Some("there is no commit to clone"),
        Some(commit) if commit.ends_with("-dirty") => Some("what isn't committed isn't in a clone"),
        Some(_) => None,
    }
}

/// Clones the repository into a temporary folder, and does there what has been done
/// here: what anybody else would do to see whether an archive is what it says.
///
/// # Errors
///
/// A file is different, or can't be made.
pub(crate) fn check(flavours: &[Flavour], first: &Path) -> Result<()> {
    if let Some(reason) = why_not() {
        bail!("{reason}");
    }
    let elsewhere = tempfile::Builder::new()
        .prefix("ipam-delegated-again-")
        .tempdir()?;
    let clone = elsewhere.path().join("clone");
    // All of it, with the commit that is checked out here.
    let mut git = Command::new("git");
    run(git.args(["clone", "--quiet"]).arg(repository()).arg(&clone))?;
    let sums = |folder: &Path| fs::read_to_string(folder.join(SUMS)).context(SUMS);
    let here = sums(first)?;
    for &flavour in flavours {
        let out = elsewhere.path().join("dist");
        let name = flavour.to_possible_value().context("a flavour's name")?;
        let mut dist = cargo(&["xtask", "dist", "--flavour", name.get_name(), "--out"]);
        dist.arg(&out)
            .current_dir(&clone)
            // It has one of its own.
            .env_remove("CARGO_TARGET_DIR");
        run(&mut dist)?;
        let there = sums(&out)?;
        let same = here.lines().any(|line| line == there.trim_end());
        ensure!(same, "here:\n{here}elsewhere:\n{there}");
        println!("The same bytes, built in another folder:\n{there}");
    }
    Ok(())
}

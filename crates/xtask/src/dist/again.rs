//! Reproducibility check: a clone in another folder gives the same archives.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use harness::repository;

use super::SUMS;
use crate::build::{self, Flavour};
use crate::cargo::{cargo, run};

/// The reason why a clone would have other sources than this checkout, if there is one.
pub(crate) fn why_not() -> Option<&'static str> {
    match build::commit() {
        None => Some("there is no commit to clone"),
        Some(commit) if commit.ends_with("-dirty") => {
            Some("the checkout has changes, which a clone doesn't have")
        }
        Some(_) => None,
    }
}

/// Clones the repository into a temporary folder, makes the archives there, and compares
/// their checksums with those in `first`.
///
/// # Errors
///
/// An archive is different, or can't be made.
pub(crate) fn check(flavours: &[Flavour], first: &Path) -> Result<()> {
    if let Some(reason) = why_not() {
        bail!("{reason}");
    }
    let elsewhere = tempfile::Builder::new()
        .prefix("ipam-delegated-again-")
        .tempdir()?;
    let clone = elsewhere.path().join("clone");
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
            // The clone has a target folder of its own.
            .env_remove("CARGO_TARGET_DIR");
        run(&mut dist)?;
        let there = sums(&out)?;
        let same = there.lines().all(|line| here.lines().any(|it| it == line));
        ensure!(same, "here:\n{here}elsewhere:\n{there}");
        println!("The same bytes, built in another folder:\n{there}");
    }
    Ok(())
}

//! Makes a release once more, in a clone in another folder, and compares the bytes.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use shipped::repository;

use super::SUMS;
use crate::build;
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

/// Makes the files of this folder again, in a clone in a temporary folder.
///
/// # Errors
///
/// A file is different, or cannot be made.
pub(super) fn check(out: &Path) -> Result<()> {
    if let Some(reason) = why_not() {
        bail!("{reason}");
    }
    let elsewhere = tempfile::Builder::new()
        .prefix("ipam-delegated-again-")
        .tempdir()?;
    let [clone, target, again] = ["clone", "target", "out"].map(|name| elsewhere.path().join(name));
    let mut git = Command::new("git");
    run(git.args(["clone", "--quiet"]).arg(repository()).arg(&clone))?;
    let mut dist = cargo(&["xtask", "dist", "--out"]);
    dist.arg(&again).current_dir(&clone);
    run(dist.env("CARGO_TARGET_DIR", target))?;
    let sums = |folder: &Path| fs::read_to_string(folder.join(SUMS)).context(SUMS);
    let again = sums(&again)?;
    for line in sums(out)?.lines() {
        let (_, file) = line.split_once("  ").unwrap_or_default();
        let is_same = again.lines().any(|other| other == line);
        ensure!(
            is_same,
            "{file} has other bytes, made in {}",
            clone.display()
        );
        println!("{file} has the same bytes, made in another folder.");
    }
    Ok(())
}

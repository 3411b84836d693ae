//! Prints the checks that a run has left out, with their reasons. In CI, one that lacks a
//! package fails the run.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};
use harness::PACKAGE;

/// Prints what was reported to this file, by the tests and by the run itself.
///
/// # Errors
///
/// `CI=true`, and a package is missing: the run would claim more than it has checked.
pub(crate) fn report(file: &Path) -> Result<()> {
    // Without a file, nothing was left out.
    let lines = fs::read_to_string(file).unwrap_or_default();
    // The tests run in two forms, so most are left out twice.
    let mut counts = BTreeMap::<&str, usize>::new();
    for line in lines.lines() {
        *counts.entry(line).or_default() += 1;
    }
    println!("\n{} left out.", lines.lines().count());
    for (line, count) in &counts {
        println!("  {count} × {line}");
    }
    let in_ci = std::env::var_os("CI").is_some_and(|value| value == "true");
    let packages = counts
        .keys()
        .filter(|line| line.starts_with(PACKAGE))
        .count();
    ensure!(
        !in_ci || packages == 0,
        "CI=true, and {packages} of the checks that were left out lack a package"
    );
    Ok(())
}

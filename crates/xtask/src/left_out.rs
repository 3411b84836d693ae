//! Prints the checks that a run has left out, with their reasons. In CI, one that lacks a
//! package fails the run; in a run of all checks, each of them does.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};
use harness::PACKAGE;

/// Prints what was reported to this file, by the tests and by the run itself.
///
/// # Errors
///
/// `CI=true`, and a check is left out that the run claims: with `all`, any of them, otherwise one
/// that lacks a package.
pub(crate) fn report(file: &Path, all: bool) -> Result<()> {
    // Without a file, nothing was left out.
    let lines = fs::read_to_string(file).unwrap_or_default();
    let checks: BTreeSet<&str> = lines.lines().collect();
    println!("\n{} left out.", checks.len());
    for check in &checks {
        println!("  {check}");
    }
    let in_ci = std::env::var_os("CI").is_some_and(|value| value == "true");
    let is_claimed = |check: &&&str| all || check.starts_with(PACKAGE);
    let claimed = checks.iter().filter(is_claimed).count();
    ensure!(
        !in_ci || claimed == 0,
        "CI=true, and {claimed} of the checks that were left out are claimed"
    );
    Ok(())
}

//! Commands, above all cargo's, run in the repository.

use std::process::Command;

use anyhow::{Context, Result, ensure};

/// A call of cargo in the repository.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut command = harness::cargo();
    command.args(arguments);
    command
}

/// Runs a command to its end.
///
/// # Errors
///
/// If the command can't be started, or fails.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("could not run {command:?}"))?;
    ensure!(status.success(), "{command:?} failed ({status})");
    Ok(())
}

/// Runs a command to its end; returns its stdout, trimmed.
///
/// # Errors
///
/// If the command can't be started, or fails.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command
        .output()
        .with_context(|| format!("could not run {command:?}"))?;
    ensure!(
        output.status.success(),
        "{command:?} failed ({}): {}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

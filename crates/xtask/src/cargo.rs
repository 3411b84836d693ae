//! Commands, above all cargo's, run in the repository.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// A call of cargo in the repository.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut command = shipped::cargo();
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
        .with_context(|| format!("could not run {}", shown(command)))?;
    ensure!(status.success(), "{} failed ({status})", shown(command));
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
        .with_context(|| format!("could not run {}", shown(command)))?;
    ensure!(
        output.status.success(),
        "{} failed ({}): {}",
        shown(command),
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// The command as it would be typed.
pub fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name();
    let words = program.into_iter().chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}

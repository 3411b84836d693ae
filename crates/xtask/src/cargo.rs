//! Calls of cargo, in the repository.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use harness::repository;

/// The plugins, by the names of their executables and packages.
pub(crate) const PLUGINS: [&str; 3] = ["ipam-delegated", "ipam-ds-ranges", "ipam-da-host-local"];

/// Which build of the plugins.
#[derive(Clone, Copy)]
pub(crate) enum Flavour {
    Normal,
    Verbose,
}

impl Flavour {
    /// Each flavour has a folder of its own, so that both stay built.
    pub(crate) fn target_dir(self) -> PathBuf {
        let target = env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| repository().join("target"), PathBuf::from);
        match self {
            Self::Normal => target,
            Self::Verbose => target.join("verbose"),
        }
    }

    /// Builds the plugins; returns the folder that holds them.
    pub(crate) fn build(self, profile: &str) -> Result<PathBuf> {
        let mut command = cargo(&["build", "--quiet", "--profile", profile]);
        for plugin in PLUGINS {
            command.args(["--package", plugin]);
        }
        if let Self::Verbose = self {
            command.args(["--features", "verbose"]);
        }
        command.arg("--target-dir").arg(self.target_dir());
        run(&mut command)?;
        let folder = if profile == "dev" { "debug" } else { profile };
        Ok(self.target_dir().join(folder))
    }
}

/// A call of cargo.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let program = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(arguments).current_dir(repository());
    command
}

/// Runs a command to its end.
///
/// # Errors
///
/// It can't be started, or fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("could not run {}", shown(command)))?;
    ensure!(status.success(), "{} failed ({status})", shown(command));
    Ok(())
}

/// The command as one would type it.
pub(crate) fn shown(command: &Command) -> String {
    let program = PathBuf::from(command.get_program());
    let program = program
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let arguments = command.get_args().map(|a| a.to_string_lossy().into_owned());
    [program]
        .into_iter()
        .chain(arguments)
        .collect::<Vec<_>>()
        .join(" ")
}

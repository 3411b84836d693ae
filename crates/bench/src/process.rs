//! Measures calls of plugins, from the start of the process to its end.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// A plugin with a configuration in a file.
#[derive(Clone)]
pub(crate) struct Plugin {
    executable: PathBuf,
    config: PathBuf,
    search_path: PathBuf,
}

impl Plugin {
    pub(crate) fn new(executable: &Path, config: &Path) -> Self {
        Self {
            search_path: executable.parent().unwrap_or(Path::new("/")).to_owned(),
            executable: executable.to_owned(),
            config: config.to_owned(),
        }
    }

    /// The same plugin with another configuration.
    pub(crate) fn with_config(&self, config: &Path) -> Self {
        Self {
            config: config.to_owned(),
            ..self.clone()
        }
    }

    /// The plugin with this name in the same folder.
    pub(crate) fn beside(&self, name: &str) -> Self {
        Self {
            executable: self.executable.with_file_name(name),
            ..self.clone()
        }
    }

    /// A call that isn't started yet. Its stdout and stderr are discarded.
    pub(crate) fn command(&self, command: &str, container: &str) -> Result<Command> {
        let mut process = Command::new(&self.executable);
        process
            .env_clear()
            .env("CNI_COMMAND", command)
            .env("CNI_CONTAINERID", container)
            .env("CNI_NETNS", "/run/netns/none")
            .env("CNI_IFNAME", "eth0")
            .env("CNI_PATH", &self.search_path)
            .stdin(File::open(&self.config)?)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Ok(process)
    }

    /// Calls it; returns the duration, and whether it succeeded.
    pub(crate) fn call(&self, command: &str, container: &str) -> Result<(Duration, bool)> {
        timed(&mut self.command(command, container)?)
    }
}

/// Runs it; returns the duration, and whether it succeeded.
pub(crate) fn timed(process: &mut Command) -> Result<(Duration, bool)> {
    let started = Instant::now();
    let mut child = process
        .spawn()
        .with_context(|| format!("{}", process.get_program().display()))?;
    let status = child.wait()?;
    Ok((started.elapsed(), status.success()))
}

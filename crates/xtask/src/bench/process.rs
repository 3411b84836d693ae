//! Calls of plugins whose time is taken: from before the start of the process
//! until its end.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// A plugin with a configuration in a file.
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

    /// What its stdin is.
    pub(crate) fn config(&self) -> &Path {
        &self.config
    }

    /// Calls it; returns how long that took and whether it succeeded.
    pub(crate) fn call(&self, command: &str, container: &str) -> Result<(Duration, bool)> {
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
        let started = Instant::now();
        let mut child = process
            .spawn()
            .with_context(|| format!("{}", self.executable.display()))?;
        let status = child.wait()?;
        Ok((started.elapsed(), status.success()))
    }
}

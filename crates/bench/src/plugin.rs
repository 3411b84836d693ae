//! A plugin's executable, called as a runtime calls it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// A plugin with a configuration in a file.
pub(crate) struct Plugin {
    executable: PathBuf,
    config: PathBuf,
}

impl Plugin {
    /// A plugin whose configuration is written to this file.
    pub(crate) fn new(executable: &Path, config: &Path, json: &Value) -> Result<Self> {
        fs::write(config, json.to_string())?;
        Ok(Self {
            executable: executable.to_owned(),
            config: config.to_owned(),
        })
    }

    /// A call for a pod that isn't started yet. Its stdout and stderr are discarded.
    pub(crate) fn command(&self, command: &str, container: &str) -> Result<Command> {
        let args = format!("IgnoreUnknown=1;K8S_POD_NAMESPACE=bench;K8S_POD_NAME={container}");
        let mut process = Command::new(&self.executable);
        process
            .env_clear()
            .env("CNI_COMMAND", command)
            .env("CNI_CONTAINERID", container)
            .env("CNI_NETNS", "/run/netns/none")
            .env("CNI_IFNAME", "eth0")
            .env("CNI_ARGS", args)
            .env(
                "CNI_PATH",
                self.executable.parent().unwrap_or(Path::new("/")),
            )
            .stdin(File::open(&self.config)?)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Ok(process)
    }
}

/// Runs it; returns the time from its start to its end, and whether it succeeded.
pub(crate) fn timed(process: &mut Command) -> Result<(Duration, bool)> {
    let started = Instant::now();
    let mut child = process
        .spawn()
        .with_context(|| format!("{}", process.get_program().display()))?;
    let status = child.wait()?;
    Ok((started.elapsed(), status.success()))
}

/// As [`timed`], and it must succeed.
pub(crate) fn succeeds(process: &mut Command) -> Result<Duration> {
    let (time, success) = timed(process)?;
    ensure!(success, "{process:?} has failed");
    Ok(time)
}

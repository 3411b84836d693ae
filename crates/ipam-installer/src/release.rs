//! Content of the image: the plugins as one executable, and `ipamctl`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use semver::Version;

/// The administrator's command.
pub(crate) const TOOL: &str = "ipamctl";

/// A release that is installed.
#[derive(Debug)]
pub(crate) struct Release {
    from: PathBuf,
    /// Names of the plugins, all of which are one executable.
    pub(crate) names: Vec<String>,
    /// Version, commit and flavour: `0.1.0 (4bf92f3577b3, normal)`.
    pub(crate) version: String,
}

impl Release {
    /// Looks at the release in a folder, and runs it once: an executable of another
    /// architecture is never installed.
    ///
    /// # Errors
    ///
    /// It is not there, or doesn't run.
    pub(crate) fn in_folder(from: &Path) -> Result<Self> {
        let plugin = from.join("plugins/ipam-delegated");
        let shown = || format!("{}", plugin.display());
        let output = Command::new(&plugin).arg("--version").env_clear().output();
        let output = output.with_context(shown)?;
        ensure!(output.status.success(), "{}: {}", shown(), output.status);
        let said = String::from_utf8_lossy(&output.stdout);
        let version = said.trim().trim_start_matches("ipam-delegated ").to_owned();
        let folder = from.join("plugins");
        let entries = fs::read_dir(&folder).with_context(|| format!("{}", folder.display()))?;
        let mut names = Vec::new();
        for entry in entries {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        let from = from.to_owned();
        Ok(Self {
            from,
            names,
            version,
        })
    }

    /// The version as a number.
    pub(crate) fn number(&self) -> Result<Version> {
        let number = self.version.split(' ').next().unwrap_or_default();
        Version::parse(number).with_context(|| format!("the version {number:?}"))
    }

    /// The executable that all plugins are.
    pub(crate) fn plugins(&self) -> Result<Vec<u8>> {
        read(&self.from.join("plugins/ipam-delegated"))
    }

    /// The executable of `ipamctl`.
    pub(crate) fn tool(&self) -> Result<Vec<u8>> {
        read(&self.tool_path())
    }

    /// The path of `ipamctl` in the image.
    pub(crate) fn tool_path(&self) -> PathBuf {
        self.from.join("sbin").join(TOOL)
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("{}", path.display()))
}

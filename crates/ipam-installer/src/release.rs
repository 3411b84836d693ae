//! Content of the image: most plugins as one executable, those with a network client by
//! themselves, and `ipamctl`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use semver::Version;

/// The administrator's command.
pub(crate) const TOOL: &str = "ipamctl";

/// An executable, and the plugins that it is.
#[derive(Debug)]
pub(crate) struct Executable {
    path: PathBuf,
    names: Vec<String>,
}

impl Executable {
    /// The names of its plugins, sorted.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.names.iter().map(String::as_str).collect()
    }

    /// Its content.
    ///
    /// # Errors
    ///
    /// It can't be read.
    pub(crate) fn content(&self) -> Result<Vec<u8>> {
        read(&self.path)
    }
}

/// A release that is installed.
#[derive(Debug)]
pub(crate) struct Release {
    from: PathBuf,
    /// The plugins.
    pub(crate) plugins: Vec<Executable>,
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
        let mut plugins = vec![Executable {
            names: names(&from.join("plugins"))?,
            path: plugin,
        }];
        let network = from.join("network-plugins");
        if network
            .try_exists()
            .with_context(|| format!("{}", network.display()))?
        {
            plugins.extend(names(&network)?.into_iter().map(|name| Executable {
                path: network.join(&name),
                names: vec![name],
            }));
        }
        let from = from.to_owned();
        Ok(Self {
            from,
            plugins,
            version,
        })
    }

    /// The version as a number.
    pub(crate) fn number(&self) -> Result<Version> {
        let number = self.version.split(' ').next().unwrap_or_default();
        Version::parse(number).with_context(|| format!("the version {number:?}"))
    }

    /// The names of all plugins.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.plugins.iter().flat_map(Executable::names).collect()
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

/// The names in a folder, sorted.
fn names(folder: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(folder).with_context(|| format!("{}", folder.display()))?;
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("{}", path.display()))
}

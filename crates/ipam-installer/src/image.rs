//! Content of the image: the multi-call executable, the plugins with a network client, and
//! `ipamctl`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use semver::Version;
use state_files::names_in;

/// The administrator's command.
const TOOL: &str = "ipamctl";

/// An executable with the names under which it is installed.
#[derive(Clone, Debug)]
pub(crate) struct Executable {
    pub(crate) path: PathBuf,
    /// Its names, sorted.
    pub(crate) names: Vec<String>,
}

impl Executable {
    /// Its content.
    ///
    /// # Errors
    ///
    /// It can't be read.
    pub(crate) fn content(&self) -> Result<Vec<u8>> {
        fs::read(&self.path).with_context(|| self.path.display().to_string())
    }
}

/// The executables of the image.
#[derive(Debug)]
pub(crate) struct Image {
    pub(crate) plugins: Vec<Executable>,
    pub(crate) tool: Executable,
    /// Version, commit and flavour: `0.1.0 (4bf92f3577b3, normal)`.
    pub(crate) version: String,
}

impl Image {
    /// Lists the executables in the image's folder, and runs one of them as a test: executables of
    /// another architecture must not be installed.
    ///
    /// # Errors
    ///
    /// An executable is missing, or doesn't run.
    pub(crate) fn in_folder(from: &Path) -> Result<Self> {
        let plugin = from.join("plugins/ipam-delegated");
        let shown = || plugin.display().to_string();
        let output = Command::new(&plugin).arg("--version").env_clear().output();
        let output = output.with_context(shown)?;
        ensure!(output.status.success(), "{}: {}", shown(), output.status);
        let answer = String::from_utf8_lossy(&output.stdout);
        let version = answer.trim().trim_start_matches("ipam-delegated ");
        let mut plugins = vec![Executable {
            names: names(&from.join("plugins"))?,
            path: plugin.clone(),
        }];
        let network = from.join("network-plugins");
        if network
            .try_exists()
            .with_context(|| network.display().to_string())?
        {
            plugins.extend(names(&network)?.into_iter().map(|name| Executable {
                path: network.join(&name),
                names: vec![name],
            }));
        }
        let tool = Executable {
            path: from.join("sbin").join(TOOL),
            names: vec![TOOL.to_owned()],
        };
        Ok(Self {
            plugins,
            tool,
            version: version.to_owned(),
        })
    }

    /// The version as a number.
    ///
    /// # Errors
    ///
    /// It isn't a version.
    pub(crate) fn number(&self) -> Result<Version> {
        let number = self.version.split(' ').next().unwrap_or_default();
        Version::parse(number).with_context(|| format!("the version {number:?}"))
    }
}

/// The names in a folder, sorted.
fn names(folder: &Path) -> Result<Vec<String>> {
    names_in(folder).with_context(|| folder.display().to_string())
}

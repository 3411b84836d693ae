//! Content of the image: the multi-call executable, the plugins with a network client, and
//! `ipamctl`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use semver::Version;
use state_files::names_in;

use crate::arguments::Arguments;
use crate::executables::Placed;

/// The administrator's command.
const TOOL: &str = "ipamctl";

/// The executables of the image.
#[derive(Debug)]
pub(crate) struct Image {
    pub(crate) plugins: Vec<Placed>,
    /// `ipamctl`, if it is installed on the node.
    pub(crate) tool: Option<Placed>,
    /// `ipamctl` in the image.
    pub(crate) tool_path: PathBuf,
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
    pub(crate) fn new(arguments: &Arguments) -> Result<Self> {
        let (from, target) = (&arguments.from, &arguments.plugins);
        let plugin = from.join("plugins/ipam-delegated");
        let shown = || plugin.display().to_string();
        let output = Command::new(&plugin).arg("--version").env_clear().output();
        let output = output.with_context(shown)?;
        ensure!(output.status.success(), "{}: {}", shown(), output.status);
        let answer = String::from_utf8_lossy(&output.stdout);
        let version = answer.trim().trim_start_matches("ipam-delegated ");
        let names_of_plugin = names(&from.join("plugins"))?;
        let mut plugins = vec![Placed::new(target, plugin.clone(), names_of_plugin)];
        let network = from.join("network-plugins");
        if network
            .try_exists()
            .with_context(|| network.display().to_string())?
        {
            let names = names(&network)?.into_iter();
            plugins.extend(names.map(|name| Placed::new(target, network.join(&name), vec![name])));
        }
        let tool_path = from.join("sbin").join(TOOL);
        let tool = |sbin| Placed::new(sbin, tool_path.clone(), vec![TOOL.to_owned()]);
        Ok(Self {
            plugins,
            tool: arguments.sbin.as_deref().map(tool),
            tool_path,
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

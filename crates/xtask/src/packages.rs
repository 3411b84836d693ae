//! The packages that the plugins are made of: where their sources are, and which
//! of them a build links.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use harness::repository;
use serde_json::Value;

use crate::build::{Flavour, ONE_FILE};
use crate::cargo::{cargo, output};
use crate::target::Target;

/// A package of somebody else's.
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    /// As its author declares it, in SPDX's terms.
    pub(crate) licence: Option<String>,
    pub(crate) folder: PathBuf,
}

impl fmt::Display for Package {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.name, self.version)
    }
}

/// All that the workspace may need on this target, in either flavour, tests included.
pub(crate) fn all(target: &Target) -> Result<Vec<Package>> {
    let metadata = output(&mut cargo(&[
        "metadata",
        "--format-version=1",
        "--locked",
        "--all-features",
        "--filter-platform",
        &target.triple,
    ]))?;
    let metadata: Value = serde_json::from_str(&metadata)?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    packages
        // Those without a source are the workspace's own.
        .filter(|package| !package["source"].is_null())
        .map(|package| Package::read(package).context("cargo metadata"))
        .collect()
}

impl Package {
    fn read(package: &Value) -> Option<Self> {
        let text = |key: &str| package[key].as_str().map(str::to_owned);
        Some(Self {
            name: text("name")?,
            version: text("version")?,
            licence: text("license"),
            folder: Path::new(&text("manifest_path")?).parent()?.to_owned(),
        })
    }
}

/// Those whose code is in the executables, in order of their names. Macros and build
/// scripts run while it is built, and are not in it.
pub(crate) fn linked(flavour: Flavour, target: &Target) -> Result<Vec<Package>> {
    let mut tree = cargo(&[
        "tree",
        "--locked",
        "--edges=normal,no-proc-macro",
        "--prefix=none",
        "--format={p}",
        "--target",
        &target.triple,
        "--package",
        ONE_FILE,
    ]);
    tree.args(flavour.features());
    let tree = output(tree.current_dir(repository()))?;
    let mut linked = all(target)?;
    // "serde v1.0.229", and for our own the path after that.
    linked.retain(|package| {
        let line = format!("{} v{}", package.name, package.version);
        tree.lines().any(|it| it.trim_end_matches(" (*)") == line)
    });
    linked.sort_by_key(ToString::to_string);
    Ok(linked)
}

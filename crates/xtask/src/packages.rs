//! The packages that the plugins are made of, and where their sources are.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::cargo::{cargo, output};
use crate::target::Target;

/// A package of somebody else's.
pub(crate) struct Package {
    name: String,
    version: String,
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
            folder: Path::new(&text("manifest_path")?).parent()?.to_owned(),
        })
    }
}

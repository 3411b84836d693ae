//! Third-party packages of the workspace: where their sources are, and which of them
//! an executable links.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;
use shipped::repository;

use crate::cargo::{cargo, output};
use crate::target::Target;

/// A third-party package.
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    /// SPDX expression, as the author declares it.
    pub(crate) licence: Option<String>,
    pub(crate) folder: PathBuf,
}

impl fmt::Display for Package {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.name, self.version)
    }
}

/// All third-party packages of the workspace on this target, with all features, tests
/// included.
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
        // The workspace's own packages have no source.
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

/// The packages whose code ends up in an executable of the workspace's `package`, built
/// with these arguments for cargo; sorted by name. Macros and build scripts only run
/// during the build, so they are left out.
pub(crate) fn linked(package: &str, features: &[&str], target: &Target) -> Result<Vec<Package>> {
    let mut tree = cargo(&[
        "tree",
        "--locked",
        "--edges=normal,no-proc-macro",
        "--prefix=none",
        "--format={p}",
        "--target",
        &target.triple,
        "--package",
        package,
    ]);
    tree.args(features);
    let tree = output(tree.current_dir(repository()))?;
    let mut linked = all(target)?;
    // A line is "serde v1.0.229"; our own packages have their path behind it.
    linked.retain(|package| {
        let name = format!("{} v{}", package.name, package.version);
        tree.lines()
            .any(|line| line.trim_end_matches(" (*)") == name)
    });
    linked.sort_by_key(ToString::to_string);
    Ok(linked)
}

#[cfg(test)]
mod tests {
    use shipped::{MULTI_CALL, NETWORK_EXECUTABLES};

    use super::*;
    use crate::build::FLAVOURS;

    #[test]
    fn the_one_executable_links_nothing_of_a_network_client() {
        let target = Target::of_releases().unwrap();
        let of_a_client = ["hyper", "prost", "ring", "rustls", "tokio", "tonic"];
        let linked_of = |package: &str, features: &[&str]| -> Vec<&str> {
            let linked = linked(package, features, &target).unwrap();
            let has = |name: &&str| linked.iter().any(|package| package.name == **name);
            of_a_client.into_iter().filter(has).collect()
        };
        for flavour in FLAVOURS {
            assert_eq!(linked_of(MULTI_CALL.package, flavour.features()), [""; 0]);
        }
        // As far as the names are right.
        assert_eq!(linked_of(NETWORK_EXECUTABLES[0].package, &[]), of_a_client);
    }
}

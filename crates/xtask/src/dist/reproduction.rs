//! Builds executables once more, in a clone in another folder, and compares the bytes.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use harness::repository;

use crate::build::{self, Flavour};
use crate::cargo::run;

/// The reason why a clone would have other sources than this checkout, if there is one.
pub(crate) fn why_not() -> Option<&'static str> {
    match build::commit() {
        None => Some("there is no commit to clone"),
        Some(commit) if commit.ends_with("-dirty") => {
            Some("the checkout has changes, which a clone doesn't have")
        }
        Some(_) => None,
    }
}

/// Executables of this checkout that are built together.
pub(crate) struct Original {
    flavour: Flavour,
    packages: Vec<&'static str>,
    contents: Vec<Vec<u8>>,
}

impl Original {
    /// Builds these packages, or takes them if they are built.
    pub(crate) fn build(flavour: Flavour, packages: &[&'static str]) -> Result<Self> {
        let folder = flavour.build_static(packages)?;
        let read = |package: &&str| fs::read(folder.join(package)).context((*package).to_owned());
        Ok(Self {
            flavour,
            packages: packages.to_vec(),
            contents: packages.iter().map(read).collect::<Result<_>>()?,
        })
    }
}

/// Builds these executables in a clone in a temporary folder.
///
/// # Errors
///
/// An executable is different, or cannot be built.
pub(crate) fn check(originals: &[Original]) -> Result<()> {
    if let Some(reason) = why_not() {
        bail!("{reason}");
    }
    let elsewhere = tempfile::Builder::new()
        .prefix("ipam-delegated-again-")
        .tempdir()?;
    let [clone, target] = ["clone", "target"].map(|name| elsewhere.path().join(name));
    let mut git = Command::new("git");
    run(git.args(["clone", "--quiet"]).arg(repository()).arg(&clone))?;
    for original in originals {
        let packages = &original.packages;
        let folder = original
            .flavour
            .build_static_in(&clone, &target, packages)?;
        for (package, content) in packages.iter().zip(&original.contents) {
            let again = fs::read(folder.join(package)).context((*package).to_owned())?;
            ensure!(
                again == *content,
                "{package} has other bytes, built in {}",
                clone.display()
            );
            println!("{package} has the same bytes, built in another folder.");
        }
    }
    Ok(())
}

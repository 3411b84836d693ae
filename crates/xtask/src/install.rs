//! `cargo xtask install`: puts a release build of every plugin into a folder, and
//! `ipamctl` into another.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use harness::{MULTI_CALL, NETWORK_PLUGINS, PLUGINS, TOOL};
use ipam_installer::{Folder, Foreign};

use crate::build::{Flavour, static_tools};

pub(crate) fn run(dir: &Path, sbin: Option<&Path>, verbose_flavour: bool) -> Result<()> {
    let flavour = if verbose_flavour {
        Flavour::Verbose
    } else {
        Flavour::Normal
    };
    let built = flavour.build_static(&[MULTI_CALL])?;
    put(dir, &PLUGINS, &built.one_file.join(PLUGINS[0]))?;
    let built = flavour.build_static(&NETWORK_PLUGINS)?;
    for plugin in NETWORK_PLUGINS {
        put(dir, &[plugin], &built.separate.join(plugin))?;
    }
    match sbin {
        Some(sbin) => {
            let built = static_tools()?;
            put(sbin, &[TOOL], &built.separate.join(TOOL))
        }
        None => Ok(()),
    }
}

/// Puts an executable into a folder under these names, each in one step: a runtime that
/// starts a plugin meanwhile gets either the old one or the new one, whole.
fn put(dir: &Path, names: &[&str], file: &Path) -> Result<()> {
    let content = fs::read(file).with_context(|| format!("{}", file.display()))?;
    let folder = Folder::open(dir)?;
    folder.put(names, &content, Foreign::Replace)?;
    for name in names {
        println!("{}", dir.join(name).display());
    }
    Ok(())
}

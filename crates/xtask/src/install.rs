//! `cargo xtask install`: a release build of every plugin, into a folder.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result};

use crate::cargo::{Flavour, PLUGINS};

pub(crate) fn run(dir: &Path, verbose_flavour: bool) -> Result<()> {
    let flavour = if verbose_flavour {
        Flavour::Verbose
    } else {
        Flavour::Normal
    };
    let built = flavour.build("release")?;
    fs::create_dir_all(dir).with_context(|| format!("{}", dir.display()))?;
    for plugin in PLUGINS {
        let to = dir.join(plugin);
        replace(&built.join(plugin), &to).with_context(|| format!("{}", to.display()))?;
        println!("{}", to.display());
    }
    Ok(())
}

/// Puts a copy in the file's place in one step: a runtime that starts the plugin
/// just now gets the old one or the new one, whole.
fn replace(from: &Path, to: &Path) -> Result<()> {
    let folder = to.parent().context("it has no folder")?;
    let new = tempfile::Builder::new()
        .permissions(fs::Permissions::from_mode(0o755))
        .tempfile_in(folder)?
        .into_temp_path();
    fs::copy(from, &new)?;
    fs::set_permissions(&new, fs::Permissions::from_mode(0o755))?;
    new.persist(to)?;
    Ok(())
}

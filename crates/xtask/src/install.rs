//! `cargo xtask install`: puts a release build of every plugin into a folder, and
//! `ipamctl` into another.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result};
use harness::{MULTI_CALL, NETWORK_PLUGINS, PLUGINS, TOOL};

use crate::build::Flavour;

pub(crate) fn run(dir: &Path, sbin: Option<&Path>, verbose_flavour: bool) -> Result<()> {
    let flavour = if verbose_flavour {
        Flavour::Verbose
    } else {
        Flavour::Normal
    };
    let built = flavour.build_static(&[MULTI_CALL])?;
    fs::create_dir_all(dir).with_context(|| format!("{}", dir.display()))?;
    // Each plugin is replaced atomically by a link to the new file: a runtime that
    // starts a plugin meanwhile gets either the old one or the new one, whole.
    let new = tempfile::Builder::new().prefix(".ipam-").tempdir_in(dir)?;
    let file = new.path().join("file");
    fs::copy(built.one_file.join(PLUGINS[0]), &file)?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755))?;
    for plugin in PLUGINS {
        let (link, to) = (new.path().join(plugin), dir.join(plugin));
        fs::hard_link(&file, &link)?;
        fs::rename(&link, &to).with_context(|| format!("{}", to.display()))?;
        println!("{}", to.display());
    }
    drop(new);
    let built = flavour.build_static(&NETWORK_PLUGINS)?;
    for plugin in NETWORK_PLUGINS {
        put(&built.separate.join(plugin), dir)?;
    }
    match sbin {
        Some(sbin) => install_tool(sbin),
        None => Ok(()),
    }
}

/// Puts `ipamctl` into this folder, in one step.
fn install_tool(sbin: &Path) -> Result<()> {
    let built = Flavour::Normal.build_static(&[TOOL])?;
    fs::create_dir_all(sbin).with_context(|| format!("{}", sbin.display()))?;
    put(&built.separate.join(TOOL), sbin)
}

/// Puts an executable into a folder, in one step.
fn put(executable: &Path, folder: &Path) -> Result<()> {
    let name = executable.file_name().context("an executable has a name")?;
    let new = tempfile::Builder::new()
        .prefix(".ipam-")
        .tempdir_in(folder)?;
    let (file, to) = (new.path().join(name), folder.join(name));
    fs::copy(executable, &file)?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755))?;
    fs::rename(&file, &to).with_context(|| format!("{}", to.display()))?;
    println!("{}", to.display());
    Ok(())
}

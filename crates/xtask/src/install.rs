//! `cargo xtask install`: a release build of every plugin, into a folder.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result};
use harness::PLUGINS;

use crate::build::{Flavour, ONE_FILE};

pub(crate) fn run(dir: &Path, verbose_flavour: bool) -> Result<()> {
    let flavour = if verbose_flavour {
        Flavour::Verbose
    } else {
        Flavour::Normal
    };
    let built = flavour.build_static(&[ONE_FILE])?;
    fs::create_dir_all(dir).with_context(|| format!("{}", dir.display()))?;
    // One file, and a link to it for each plugin; put in the place of what is there
    // in one step each: a runtime that starts a plugin just now gets the old one or
    // the new one, whole.
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
    Ok(())
}

//! `ipamctl` in an archive: the executable, its man pages, its completions, and units for
//! systemd timers.

use std::fs;

use anyhow::{Context, Result};
use harness::{TOOL, repository};

use super::archive::Archive;
use crate::build::static_tools;
use crate::cargo::{cargo, run};

/// The folder of the units in the repository.
const UNITS: &str = "docs/systemd";

/// Adds all of it. It is not among the plugins, since a runtime looks for these in one
/// folder; and it is built without them, so that nothing of it is linked into a plugin.
pub(super) fn add(archive: &mut Archive) -> Result<()> {
    let built = static_tools()?;
    let file = built.separate.join(TOOL);
    let content = fs::read(&file).with_context(|| format!("{}", file.display()))?;
    archive.executable(&[format!("sbin/{TOOL}")], content);
    share(archive)?;
    units(archive)
}

/// The man pages and the completions, which an example of `ipamctl` writes.
fn share(archive: &mut Archive) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut example = cargo(&["run", "--quiet", "--locked", "--package", TOOL]);
    run(example
        .args(["--example", "share", "--"])
        .arg(folder.path()))?;
    archive.text_files("share", folder.path())
}

fn units(archive: &mut Archive) -> Result<()> {
    archive.text_files("lib/systemd/system", &repository().join(UNITS))
}

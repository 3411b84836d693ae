//! `cargo xtask install`: puts a release build of every plugin into a folder, and
//! `ipamctl` into another.

use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context, Result};
use shipped::{DHCP_RENEWER, IPAMCTL, MULTI_CALL, NETWORK_EXECUTABLES};
use tempfile::{NamedTempFile, TempDir};

use crate::build::{Flavour, TOOLS};

/// Installs the plugins in `dir`, and `ipamctl` in `sbin`.
///
/// # Errors
///
/// A build fails, or a file cannot be replaced.
pub fn run(dir: &Path, sbin: Option<&Path>, verbose_flavour: bool) -> Result<()> {
    let flavour = match verbose_flavour {
        true => Flavour::Verbose,
        false => Flavour::Normal,
    };
    for group in [&[MULTI_CALL][..], &NETWORK_EXECUTABLES] {
        let packages: Vec<&str> = group.iter().map(|one| one.package).collect();
        let built = flavour.build_static(&packages)?;
        for executable in group {
            put(dir, executable.plugins, &built.join(executable.file))?;
        }
    }
    if let Some(sbin) = sbin {
        let built = Flavour::Normal.build_static(&TOOLS)?;
        for tool in [IPAMCTL, DHCP_RENEWER] {
            put(sbin, &[tool], &built.join(tool))?;
        }
        eprintln!(
            "A timer that repeats failed DELs: docs/systemd/ipamctl-gc.timer; the unit for DHCP is beside it"
        );
    }
    Ok(())
}

/// Puts an executable into a folder under these names, as hard links. Each name is replaced
/// in one step: a runtime that starts a plugin meanwhile gets the old file or the new one.
fn put(dir: &Path, names: &[&str], executable: &Path) -> Result<()> {
    let failed = || format!("installing {} in {}", executable.display(), dir.display());
    fs::create_dir_all(dir).with_context(failed)?;
    // Closed: a file that is open for writing can't be executed.
    let new = NamedTempFile::new_in(dir).with_context(failed)?;
    let new = new.into_temp_path();
    fs::copy(executable, &new).with_context(failed)?;
    let written = File::open(&new).with_context(failed)?;
    written.sync_all().with_context(failed)?;
    let link = TempDir::new_in(dir).with_context(failed)?;
    for name in names {
        let link = link.path().join(name);
        fs::hard_link(&new, &link).with_context(failed)?;
        fs::rename(&link, dir.join(name)).with_context(failed)?;
        println!("{}", dir.join(name).display());
    }
    Ok(())
}

//! Compiler flags of a release build: static, and the same bytes from the same sources
//! on any machine.

use std::path::Path;

use crate::packages;
use crate::target::{Target, rustc, sysroot};
use anyhow::Result;
use shipped::repository;

/// The flags to build this checkout for this target, with build output in `target_dir`.
pub(crate) fn link_flags(target: &Target, target_dir: &Path) -> Result<Vec<String>> {
    let mut flags = vec![
        "-Ctarget-feature=+crt-static".to_owned(),
        // A fixed load address: nothing has to be relocated at the start.
        "-Crelocation-model=static".to_owned(),
        // Without relocations, RELRO protects next to nothing, and costs a
        // twenty-fifth of an ADD.
        "-Crelro-level=off".to_owned(),
    ];
    let mut rename = |path: &Path, name: &str| {
        flags.push(format!("--remap-path-prefix={}={name}", path.display()));
    };
    // Panic messages name source files, whose folders differ between machines. If
    // several prefixes fit, the last one is used.
    rename(&repository(), "/ipam-delegated");
    rename(target_dir, "/target");
    for package in packages::all(target)? {
        rename(&package.folder, &format!("/crates/{package}"));
    }
    // The name that the standard library uses where its sources aren't installed.
    let sources = Path::new(&sysroot()?).join("lib/rustlib/src/rust");
    let verbose = rustc(&["--version", "--verbose"])?;
    let commit = verbose
        .lines()
        .find_map(|line| line.strip_prefix("commit-hash: "));
    rename(&sources, &format!("/rustc/{}", commit.unwrap_or("unknown")));
    Ok(flags)
}

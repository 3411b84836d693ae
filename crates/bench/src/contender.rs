//! Contenders of the comparison on a node: our chain in both forms, a peer, and the least that a
//! program costs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use harness::{IPAM_DELEGATED, MULTI_CALL};
use serde_json::{Value, json};
use xtask::build::Flavour;

use crate::plugin::succeeds;

/// The delegates of our chain.
const DELEGATES: [&str; 2] = ["ipam-ds-ranges", "ipam-da-host-local"];

/// A measured executable.
pub(crate) struct Contender {
    pub(crate) name: String,
    /// The executable that a runtime calls.
    pub(crate) executable: PathBuf,
    /// The `ipam` section, without the folders of state.
    pub(crate) ipam: Value,
}

/// Builds the contenders, and installs them in this folder: our chain in one file, the peer, our
/// chain in separate files, and an empty program.
pub(crate) fn contenders(peer: &Path, folder: &Path) -> Result<[Contender; 4]> {
    let releases = Flavour::Normal.build_static(&[MULTI_CALL.package])?;
    let built = releases.join(MULTI_CALL.file);
    let one_file = install(&built, &folder.join("one-file"), IPAM_DELEGATED)?;
    for name in DELEGATES.into_iter().chain(["ipam-ds-rules"]) {
        fs::hard_link(&one_file, one_file.with_file_name(name))?;
    }
    // Copies are other files, so each is executed.
    let separate = install(&built, &folder.join("separate"), IPAM_DELEGATED)?;
    for name in DELEGATES {
        install(&built, &folder.join("separate"), name)?;
    }
    let empty = build_empty(&releases, folder)?;
    let contender = |name: &str, executable, kind: &str| Contender {
        name: name.to_owned(),
        executable,
        ipam: json!({
            "type": kind, "delegates": DELEGATES,
            "ranges": [[{"subnet": "10.10.0.0/16"}]], "routes": [{"dst": "0.0.0.0/0"}],
        }),
    };
    let installed_peer = install(peer, &folder.join("peer"), "host-local")?;
    Ok([
        contender("one file", one_file, IPAM_DELEGATED),
        contender(&name_of_peer(peer)?, installed_peer, "host-local"),
        contender("separate", separate, IPAM_DELEGATED),
        contender("empty program", empty, "empty"),
    ])
}

/// Copies an executable into this folder, under this name. All contenders are copied at the same
/// time: an executable that the linker has just written, or that has been in the page cache for
/// long, starts up to a fifth slower.
fn install(executable: &Path, folder: &Path, name: &str) -> Result<PathBuf> {
    fs::create_dir_all(folder)?;
    let installed = folder.join(name);
    fs::copy(executable, &installed)
        .with_context(|| format!("copying {}", executable.display()))?;
    Ok(installed)
}

/// Builds a program that does nothing, linked as ours: its start is what the C library and the
/// machine take. `releases` is `<target>/<triple>/release`.
fn build_empty(releases: &Path, folder: &Path) -> Result<PathBuf> {
    let triple = releases.iter().rev().nth(1).context("no triple")?;
    let [source, built] = ["empty.rs", "empty"].map(|name| folder.join(name));
    fs::write(&source, "fn main() {}")?;
    let mut rustc = Command::new("rustc");
    rustc
        .arg(&source)
        .arg("-o")
        .arg(&built)
        .arg("--target")
        .arg(triple)
        .args(["-Copt-level=s", "-Cstrip=symbols"])
        .args(["-Ctarget-feature=+crt-static", "-Crelocation-model=static"])
        .arg("-Crelro-level=off");
    succeeds(&mut rustc)?;
    install(&built, &folder.join("empty-program"), "empty")
}

/// `host-local`, with the version that Go has written into the executable, if there is one.
fn name_of_peer(peer: &Path) -> Result<String> {
    let content = fs::read(peer)?;
    let text = String::from_utf8_lossy(&content);
    let version = text
        .split_once("github.com/containernetworking/plugins\tv")
        .and_then(|(_, rest)| rest.split(['\t', '\n']).next());
    let version = version.map(|version| format!(" {version}"));
    Ok(format!("host-local{}", version.unwrap_or_default()))
}

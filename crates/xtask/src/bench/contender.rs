//! Who is compared: what gives an address, and the bare minimum of processes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use harness::PLUGINS;

use crate::build::{Flavour, both_forms};
use crate::cargo;

/// Something that is measured.
#[derive(Clone, Debug)]
pub(crate) struct Contender {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// What a runtime executes.
    pub(crate) executable: PathBuf,
}

/// How it is called, and by what name it is known in the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Our chain, in one file.
    OneFile,
    /// Our chain, of separate executables.
    Separate,
    /// One plugin that does it all.
    Peer,
    /// As many empty programs as our chain has, one after the other.
    Minimum,
}

impl Kind {
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::OneFile => "one-file",
            Self::Separate => "separate",
            Self::Peer => "peer",
            Self::Minimum => "minimum",
        }
    }

    pub(crate) fn is_ours(self) -> bool {
        matches!(self, Self::OneFile | Self::Separate)
    }
}

impl Contender {
    /// What it has on disk.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        match self.kind {
            Kind::Separate => PLUGINS
                .map(|name| self.executable.with_file_name(name))
                .to_vec(),
            _ => vec![self.executable.clone()],
        }
    }
}

/// All of them, built, and installed in this folder.
pub(crate) fn all(peer: &Path, folder: &Path) -> Result<Vec<Contender>> {
    let built = Flavour::Normal.build_static(&both_forms())?;
    let empty = empty_program(&folder.join("build"))?;
    let [one_file, separate] = ["one-file", "separate"].map(|form| folder.join(form));
    for name in PLUGINS {
        install(&built.separate.join(name), &separate)?;
    }
    let orchestrator = install(&built.one_file.join(PLUGINS[0]), &one_file)?;
    for name in &PLUGINS[1..] {
        fs::hard_link(&orchestrator, one_file.join(name))?;
    }
    let empty = install(&empty, folder)?;
    let installed_peer = install(peer, &folder.join("peer"))?;
    let peer_name = peer.file_name().unwrap_or_default().to_string_lossy();
    let contender = |name: &str, kind, executable: PathBuf| Contender {
        name: name.to_owned(),
        kind,
        executable,
    };
    Ok(vec![
        contender("our chain, one file", Kind::OneFile, orchestrator),
        contender(
            "our chain, separate",
            Kind::Separate,
            separate.join(PLUGINS[0]),
        ),
        contender(&peer_name, Kind::Peer, installed_peer),
        contender("3 empty programs", Kind::Minimum, empty),
    ])
}

/// The least that a static program can be in our language: built here.
fn empty_program(folder: &Path) -> Result<PathBuf> {
    fs::create_dir_all(folder)?;
    let (source, program) = (folder.join("empty.rs"), folder.join("empty"));
    fs::write(&source, "fn main() {}\n")?;
    let mut rustc = Command::new("rustc");
    rustc
        .args(["-C", "opt-level=3", "-C", "strip=symbols"])
        .args(["-C", "target-feature=+crt-static"])
        .args(["-C", "relocation-model=static"])
        .arg("-o")
        .args([&program, &source]);
    cargo::run(&mut rustc)?;
    Ok(program)
}

/// Copies an executable into this folder, as an installation does it; all that are
/// compared at the same moment. What the linker has left behind, and what has been in
/// the system's memory for long, is slower to start, by up to a fifth.
pub(crate) fn install(executable: &Path, folder: &Path) -> Result<PathBuf> {
    fs::create_dir_all(folder)?;
    let installed = folder.join(executable.file_name().unwrap_or_default());
    fs::copy(executable, &installed)
        .with_context(|| format!("copying {}", executable.display()))?;
    Ok(installed)
}

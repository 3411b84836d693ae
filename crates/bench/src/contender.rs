//! Contenders of a benchmark: our chain in both forms, our allocator, a peer, and empty
//! programs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use harness::{ORCHESTRATOR, PLUGINS};

use xtask::build::{Built, Flavour, both_forms};
use xtask::cargo;

/// The delegates of our chain.
pub(crate) const DELEGATES: [&str; 2] = ["ipam-ds-ranges", ALLOCATOR];

/// The delegate that corresponds to host-local.
const ALLOCATOR: &str = "ipam-da-host-local";

/// A measured executable.
#[derive(Clone, Debug)]
pub(crate) struct Contender {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// The executable that a runtime calls.
    pub(crate) executable: PathBuf,
}

/// Kind of a contender. Its configuration and its calls depend on the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Our chain as a multi-call executable.
    OneFile,
    /// Our chain as separate executables.
    Separate,
    /// Only our allocator, with pools in `prevResult`.
    Allocator,
    /// Another project's plugin: host-local.
    Peer,
    /// As many empty programs as our chain has executables, in sequence.
    Minimum,
}

impl Kind {
    /// Its name in the figures.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::OneFile => "one-file",
            Self::Separate => "separate",
            Self::Allocator => "allocator",
            Self::Peer => "peer",
            Self::Minimum => "minimum",
        }
    }

    /// True if it is our chain.
    pub(crate) fn is_chain(self) -> bool {
        matches!(self, Self::OneFile | Self::Separate)
    }
}

impl Contender {
    /// Its executables.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        match self.kind {
            Kind::Separate => [ORCHESTRATOR]
                .into_iter()
                .chain(DELEGATES)
                .map(|name| self.executable.with_file_name(name))
                .collect(),
            _ => vec![self.executable.clone()],
        }
    }
}

/// Builds the contenders of a comparison of chains, and installs them in this folder.
pub(crate) fn chains(peer: &Path, folder: &Path) -> Result<Vec<Contender>> {
    let built = Flavour::Normal.build_static(&both_forms())?;
    let empty = empty_program(&folder.join("build"))?;
    let separate = folder.join("separate");
    for name in PLUGINS {
        install(&built.separate.join(name), &separate)?;
    }
    let orchestrator = install_one_file(&built, folder)?.join(ORCHESTRATOR);
    let empty = install(&empty, folder)?;
    let installed_peer = install(peer, &folder.join("peer"))?;
    Ok(vec![
        contender("our chain, one file", Kind::OneFile, orchestrator),
        contender(
            "our chain, separate",
            Kind::Separate,
            separate.join(ORCHESTRATOR),
        ),
        contender(&file_name(peer), Kind::Peer, installed_peer),
        contender("3 empty programs", Kind::Minimum, empty),
    ])
}

/// Builds the multi-call executable, and installs it in this folder under the names of all
/// plugins; returns the folder.
pub(crate) fn one_file(folder: &Path) -> Result<PathBuf> {
    install_one_file(&Flavour::Normal.build_static(&both_forms())?, folder)
}

fn install_one_file(built: &Built, folder: &Path) -> Result<PathBuf> {
    let folder = folder.join("one-file");
    let orchestrator = install(&built.one_file.join(ORCHESTRATOR), &folder)?;
    for name in PLUGINS.iter().filter(|name| **name != ORCHESTRATOR) {
        fs::hard_link(&orchestrator, folder.join(name))?;
    }
    Ok(folder)
}

/// Builds our allocator, and installs it and the peer in this folder.
pub(crate) fn allocators(peer: &Path, folder: &Path) -> Result<[Contender; 2]> {
    let built = Flavour::Normal.build_static(&[ALLOCATOR])?.separate;
    let ours = install(&built.join(ALLOCATOR), &folder.join("ours"))?;
    let theirs = install(peer, &folder.join("peer"))?;
    Ok([
        contender(ALLOCATOR, Kind::Allocator, ours),
        contender(&file_name(peer), Kind::Peer, theirs),
    ])
}

fn contender(name: &str, kind: Kind, executable: PathBuf) -> Contender {
    Contender {
        name: name.to_owned(),
        kind,
        executable,
    }
}

fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Builds a static Rust program that does nothing.
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

/// Copies an executable into this folder, like an installation. All contenders are copied at the
/// same time: an executable that the linker has just written, or that has been in the page cache
/// for long, starts up to a fifth slower.
fn install(executable: &Path, folder: &Path) -> Result<PathBuf> {
    fs::create_dir_all(folder)?;
    let installed = folder.join(executable.file_name().unwrap_or_default());
    fs::copy(executable, &installed)
        .with_context(|| format!("copying {}", executable.display()))?;
    Ok(installed)
}

//! Who is compared: what gives an address, and the bare minimum of processes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use harness::PLUGINS;

use crate::build::{BOTH_FORMS, Flavour};
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

/// All of them, built.
pub(crate) fn all(peer: &Path) -> Result<Vec<Contender>> {
    let built = Flavour::Normal.build_static(&BOTH_FORMS)?;
    let empty = empty_program(&Flavour::Normal.target_dir().join("bench"))?;
    let peer_name = peer.file_name().unwrap_or_default().to_string_lossy();
    let contender = |name: &str, kind, executable: PathBuf| Contender {
        name: name.to_owned(),
        kind,
        executable,
    };
    Ok(vec![
        contender(
            "our chain, one file",
            Kind::OneFile,
            built.one_file.join("ipam-delegated"),
        ),
        contender(
            "our chain, separate",
            Kind::Separate,
            built.separate.join("ipam-delegated"),
        ),
        contender(&peer_name, Kind::Peer, peer.to_owned()),
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

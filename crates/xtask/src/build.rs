//! Builds the executables of a release, in two flavours.

use std::env;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Result, bail};
use clap::ValueEnum;
use shipped::{
    DHCP_RENEWER, DOCKER_DAEMON, INSTALLER, IPAMCTL, cargo_by_hand, repository, target_dir,
};

use crate::cargo::{output, run};
use crate::link_flags::link_flags;
use crate::target::Target;

/// The administrator's command, the daemons and the image's entry point. They are
/// built together, since they share most of what they link.
pub(crate) const TOOLS: [&str; 4] = [DOCKER_DAEMON, DHCP_RENEWER, IPAMCTL, INSTALLER];

/// The environment variable that hands the commit to the build, for `--version`.
pub(crate) const COMMIT: &str = "IPAM_DELEGATED_COMMIT";

/// The environment variable with a folder of executables that stand in for those of a release, in
/// `normal` and `verbose`: the tests build them once, for themselves and for the archives.
pub(crate) const STAND_INS: &str = "IPAM_DELEGATED_STAND_INS";

/// How well gzip is to compress an archive, from 0 to 9: nobody loads one of stand-ins.
pub(crate) fn compression() -> u32 {
    env::var_os(STAND_INS).map_or(9, |_| 0)
}

/// A build of the plugins.
#[derive(Clone, Copy, ValueEnum)]
pub enum Flavour {
    /// Warnings and errors go to stderr.
    Normal,
    /// Everything is also logged to /var/log/cni.
    Verbose,
}

/// Both flavours. The normal one is built last, so that its executables stay in cargo's
/// folder.
pub(crate) const FLAVOURS: [Flavour; 2] = [Flavour::Verbose, Flavour::Normal];

impl Flavour {
    /// Builds these packages as they are installed, statically linked; returns the folder of the
    /// executables.
    ///
    /// # Errors
    ///
    /// The C library is missing, or the build fails.
    pub fn build_static(self, packages: &[&str]) -> Result<PathBuf> {
        if let Some(folder) = env::var_os(STAND_INS) {
            return Ok(PathBuf::from(folder).join(match self {
                Self::Normal => "normal",
                Self::Verbose => "verbose",
            }));
        }
        let target_dir = target_dir();
        let target = Target::of_releases()?;
        if let Some(reason) = target.missing() {
            bail!("{reason}");
        }
        let mut command = cargo_by_hand();
        command.args(["build", "--quiet", "--release"]);
        for package in packages {
            command.args(["--package", package]);
        }
        command.args(self.features());
        let flags = link_flags(&target, &target_dir)?;
        command
            // The dependencies of Cargo.lock.
            .args(["--locked", "--target", &target.triple])
            .arg("--target-dir")
            .arg(&target_dir)
            // Takes precedence over RUSTFLAGS.
            .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
        if let Some(commit) = commit() {
            command.env(COMMIT, commit);
        }
        run(&mut command)?;
        Ok(target_dir.join(target.triple).join("release"))
    }

    /// The arguments for cargo that select this flavour.
    pub(crate) fn features(self) -> &'static [&'static str] {
        match self {
            Self::Normal => &[],
            Self::Verbose => &["--features", "verbose"],
        }
    }
}

/// The commit that is checked out, with `-dirty` behind it if there are changes; `None`
/// without a repository.
pub(crate) fn commit() -> Option<String> {
    // The same for everything that one run builds, even if a file is changed meanwhile.
    static COMMIT: OnceLock<Option<String>> = OnceLock::new();
    let describe = || {
        let mut git = Command::new("git");
        git.args([
            "describe",
            "--always",
            "--dirty",
            "--exclude=*",
            "--abbrev=12",
        ]);
        output(git.current_dir(repository())).ok()
    };
    COMMIT.get_or_init(describe).clone()
}

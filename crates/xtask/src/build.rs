//! Builds of the plugins: which there are, and where they end up.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use harness::{PLUGINS, repository};

use crate::cargo::{cargo, output, run};
use crate::target::Target;

/// All of them in one executable.
pub(crate) const ONE_FILE: &str = "ipam-plugins";

/// The packages of the plugins in both forms.
pub(crate) const BOTH_FORMS: [&str; 4] = [PLUGINS[0], PLUGINS[1], PLUGINS[2], ONE_FILE];

/// Says to the build which commit it is of, for `--version`.
const COMMIT: &str = "IPAM_DELEGATED_COMMIT";

/// Which build of the plugins.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Flavour {
    Normal,
    Verbose,
}

/// Both.
pub(crate) const FLAVOURS: [Flavour; 2] = [Flavour::Normal, Flavour::Verbose];

/// A build: two folders, with an executable for each plugin in either.
pub(crate) struct Built {
    /// Each is a program of its own.
    pub(crate) separate: PathBuf,
    /// Each is a hard link to the one that is all of them.
    pub(crate) one_file: PathBuf,
}

impl Flavour {
    /// Each flavour has a folder of its own, so that both stay built.
    pub(crate) fn target_dir(self) -> PathBuf {
        let target = env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| repository().join("target"), PathBuf::from);
        match self {
            Self::Normal => target,
            Self::Verbose => target.join("verbose"),
        }
    }

    /// Builds the plugins as a developer does: linked with what the machine has.
    pub(crate) fn build(self, profile: &str) -> Result<Built> {
        let mut command = self.command(profile, &BOTH_FORMS);
        run(&mut command)?;
        let folder = if profile == "dev" { "debug" } else { profile };
        Built::in_folder(self.target_dir().join(folder))
    }

    /// Builds these packages as they are installed: with all that they need in them.
    pub(crate) fn build_static(self, packages: &[&str]) -> Result<Built> {
        let target = Target::of_releases()?;
        if let Some(reason) = target.missing() {
            bail!("{reason}");
        }
        let mut command = self.command("release", packages);
        let flags = target.flags(&self.target_dir())?;
        command
            // The same dependencies wherever it is built.
            .args(["--locked", "--target", &target.triple])
            // Instead of RUSTFLAGS, whatever it is.
            .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
        if let Some(commit) = commit() {
            command.env(COMMIT, commit);
        }
        run(&mut command)?;
        Built::in_folder(self.target_dir().join(target.triple).join("release"))
    }

    fn command(self, profile: &str, packages: &[&str]) -> Command {
        let mut command = cargo(&["build", "--quiet", "--profile", profile]);
        for package in packages {
            command.args(["--package", package]);
        }
        command.args(self.features());
        command.arg("--target-dir").arg(self.target_dir());
        command
    }

    /// What cargo is told of it.
    pub(crate) fn features(self) -> &'static [&'static str] {
        match self {
            Self::Normal => &[],
            Self::Verbose => &["--features", "verbose"],
        }
    }
}

impl Built {
    fn in_folder(separate: PathBuf) -> Result<Self> {
        let one_file = separate.join("one-file");
        fs::create_dir_all(&one_file)?;
        for plugin in PLUGINS {
            let link = one_file.join(plugin);
            // Of an earlier build.
            let _ = fs::remove_file(&link);
            if !separate.join(ONE_FILE).exists() {
                continue;
            }
            fs::hard_link(separate.join(ONE_FILE), &link)
                .with_context(|| format!("{}", link.display()))?;
        }
        Ok(Self { separate, one_file })
    }
}

/// The commit that is checked out, if that can be told, and whether there is more.
pub(crate) fn commit() -> Option<String> {
    let mut git = Command::new("git");
    git.args([
        "describe",
        "--always",
        "--dirty",
        "--exclude=*",
        "--abbrev=12",
    ]);
    output(git.current_dir(repository())).ok()
}

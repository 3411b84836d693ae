//! Builds the plugins and the tools: two flavours, each plugin by itself and all in one
//! executable.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use harness::{DOCKER_DAEMON, INSTALLER, MULTI_CALL, NETWORK_PLUGINS, PLUGINS, TOOL, repository};

use crate::cargo::{cargo, output, run};
use crate::link_flags::link_flags;
use crate::target::Target;

/// The packages of both forms: each plugin by itself, and all in one executable.
pub fn both_forms() -> Vec<&'static str> {
    PLUGINS.into_iter().chain([MULTI_CALL]).collect()
}

/// The administrator's command, the daemon for Docker and the image's entry point. They are
/// built together, since they share most of what they link.
pub(crate) const TOOLS: [&str; 3] = [DOCKER_DAEMON, TOOL, INSTALLER];

/// The environment variable that hands the commit to the build, for `--version`.
const COMMIT: &str = "IPAM_DELEGATED_COMMIT";

/// The environment variable with the folder of plugins that are built already, for tests
/// and for what tests run.
pub const BUILT_PLUGINS: &str = "IPAM_DELEGATED_PLUGINS";

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

/// Folders with an executable for every plugin that is built.
pub struct Built {
    /// Each plugin is a separate executable.
    pub separate: PathBuf,
    /// Each plugin is a hard link to the multi-call executable, or, with a network client, to
    /// its own.
    pub one_file: PathBuf,
}

/// The folder of builds.
pub fn target_dir() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from)
}

impl Flavour {
    /// Builds both forms for the tests, linked dynamically.
    ///
    /// # Errors
    ///
    /// A build fails, or a link cannot be made.
    pub fn build(self, profile: &str) -> Result<Built> {
        // The network client must not change what the other plugins link.
        for packages in [&both_forms()[..], &NETWORK_PLUGINS] {
            run(&mut build(packages, self, profile))?;
        }
        let folder = profile_folder(profile);
        match self {
            Self::Normal => Built::link(&folder, folder.clone()),
            Self::Verbose => Built::link(&folder, folder.join("verbose")),
        }
    }

    /// Builds these packages as they are installed: statically linked.
    ///
    /// # Errors
    ///
    /// The C library is missing, or the build fails.
    pub fn build_static(self, packages: &[&str]) -> Result<Built> {
        let folder = self.build_static_in(&repository(), &target_dir(), packages)?;
        Built::link(&folder, folder.clone())
    }

    /// [`Self::build_static`] of another checkout; returns the folder of the executables.
    pub(crate) fn build_static_in(
        self,
        checkout: &Path,
        target_dir: &Path,
        packages: &[&str],
    ) -> Result<PathBuf> {
        let target = Target::of_releases()?;
        if let Some(reason) = target.missing() {
            bail!("{reason}");
        }
        let mut command = build(packages, self, "release");
        let flags = link_flags(&target, checkout, target_dir)?;
        command
            .current_dir(checkout)
            // The dependencies of Cargo.lock.
            .args(["--locked", "--target", &target.triple])
            .arg("--target-dir")
            .arg(target_dir)
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

/// Builds the multi-call executable for the demo; returns a folder with all plugins as links
/// to it.
pub(crate) fn build_one_file() -> Result<PathBuf> {
    run(&mut build(&[MULTI_CALL], Flavour::Normal, "dev"))?;
    let folder = profile_folder("dev");
    Ok(Built::link(&folder, folder.clone())?.one_file)
}

/// Builds the tools for the tests, linked dynamically.
///
/// # Errors
///
/// The build fails.
pub fn build_tools(profile: &str) -> Result<()> {
    run(&mut build(&TOOLS, Flavour::Normal, profile))
}

/// cargo's command to build these packages.
fn build(packages: &[&str], flavour: Flavour, profile: &str) -> Command {
    let mut command = cargo(&["build", "--quiet", "--profile", profile]);
    for package in packages {
        command.args(["--package", package]);
    }
    command.args(flavour.features());
    command
}

/// The folder of the executables of a profile.
fn profile_folder(profile: &str) -> PathBuf {
    target_dir().join(if profile == "dev" { "debug" } else { profile })
}

impl Built {
    /// Links the executables that are in cargo's folder `from`.
    fn link(from: &Path, separate: PathBuf) -> Result<Self> {
        let one_file = separate.join("one-file");
        fs::create_dir_all(&one_file)?;
        for plugin in PLUGINS {
            link(&from.join(MULTI_CALL), &one_file.join(plugin))?;
        }
        for plugin in NETWORK_PLUGINS {
            link(&from.join(plugin), &one_file.join(plugin))?;
        }
        if from != separate {
            for package in both_forms().into_iter().chain(NETWORK_PLUGINS) {
                link(&from.join(package), &separate.join(package))?;
            }
        }
        Ok(Self { separate, one_file })
    }
}

/// Links to an executable, if it is built. A link that is there is replaced in one step: tests
/// of an earlier build may be running.
fn link(executable: &Path, link: &Path) -> Result<()> {
    if !executable.exists() {
        return Ok(());
    }
    let new = link.with_extension("new");
    let _ = fs::remove_file(&new);
    fs::hard_link(executable, &new)
        .and_then(|()| fs::rename(&new, link))
        .with_context(|| link.display().to_string())?;
    // If both were links to one file already, `rename` has left both.
    let _ = fs::remove_file(new);
    Ok(())
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

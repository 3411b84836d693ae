//! Builds of the plugins: flavours, forms, and the folders of the executables.

use std::env;
use std::fs;
use std::path::PathBuf;
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

/// The administrator's command, the daemon for Docker and the image's entry point.
const TOOLS: [&str; 3] = [DOCKER_DAEMON, TOOL, INSTALLER];

/// The environment variable that hands the commit to the build, for `--version`.
const COMMIT: &str = "IPAM_DELEGATED_COMMIT";

/// A build of the plugins: what is logged where.
#[derive(Clone, Copy, ValueEnum)]
pub enum Flavour {
    /// Warnings and errors go to stderr.
    Normal,
    /// Everything is also logged to /var/log/cni.
    Verbose,
}

/// Both flavours.
pub const FLAVOURS: [Flavour; 2] = [Flavour::Normal, Flavour::Verbose];

/// Folders of a finished build, each with an executable for every plugin.
pub struct Built {
    /// Each plugin is an executable of its own.
    pub separate: PathBuf,
    /// Each plugin is a hard link to the multi-call executable; beside it are those with a
    /// network client, if they are built.
    pub one_file: PathBuf,
}

/// The environment variable with the folder of plugins that are built already, for tests
/// and for what tests run.
pub const BUILT_PLUGINS: &str = "IPAM_DELEGATED_PLUGINS";

impl Flavour {
    /// The folder of this flavour's build; one each, so that both stay built.
    pub fn target_dir(self) -> PathBuf {
        let target = env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| repository().join("target"), PathBuf::from);
        match self {
            Self::Normal => target,
            Self::Verbose => target.join("verbose"),
        }
    }

    /// Builds both forms for the tests, linked dynamically.
    pub fn build(self, profile: &str) -> Result<Built> {
        run(&mut self.command(profile, &both_forms()))?;
        // By themselves: none of what they link may change the others.
        run(&mut self.command(profile, &NETWORK_PLUGINS))?;
        Built::in_folder(self.profile_dir(profile))
    }

    /// Builds the multi-call executable; returns a folder with all plugins as links to it.
    ///
    /// # Errors
    ///
    /// The build fails, or the links cannot be made.
    pub fn build_one_file(self, profile: &str) -> Result<PathBuf> {
        run(&mut self.command(profile, &[MULTI_CALL]))?;
        Ok(Built::in_folder(self.profile_dir(profile))?.one_file)
    }

    fn profile_dir(self, profile: &str) -> PathBuf {
        let folder = if profile == "dev" { "debug" } else { profile };
        self.target_dir().join(folder)
    }

    /// Builds the tools beside the plugins, and by themselves: none of what they link may
    /// change theirs.
    pub fn build_tools(self, profile: &str) -> Result<()> {
        let mut command = cargo(&["build", "--quiet", "--profile", profile]);
        for package in TOOLS {
            command.args(["--package", package]);
        }
        run(command.arg("--target-dir").arg(self.target_dir()))
    }

    /// Builds these packages as they are installed: statically linked.
    pub fn build_static(self, packages: &[&str]) -> Result<Built> {
        let target = Target::of_releases()?;
        if let Some(reason) = target.missing() {
            bail!("{reason}");
        }
        let mut command = self.command("release", packages);
        let flags = link_flags(&target, &self.target_dir())?;
        command
            // The dependencies of Cargo.lock.
            .args(["--locked", "--target", &target.triple])
            // Takes precedence over RUSTFLAGS.
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

    /// The arguments for cargo that select this flavour.
    pub fn features(self) -> &'static [&'static str] {
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
        let executable = separate.join(MULTI_CALL);
        if !executable.exists() {
            return Ok(Self { separate, one_file });
        }
        let all = PLUGINS.map(|plugin| (plugin, executable.clone()));
        // Beside it, as they are installed, if they are built.
        let network = NETWORK_PLUGINS.map(|plugin| (plugin, separate.join(plugin)));
        let network = network.into_iter().filter(|(_, built)| built.exists());
        for (plugin, built) in all.into_iter().chain(network) {
            // Replaced atomically: tests of an earlier build may be running.
            let (new, link) = (one_file.join("new"), one_file.join(plugin));
            let _ = fs::remove_file(&new);
            fs::hard_link(&built, &new)
                .and_then(|()| fs::rename(&new, &link))
                .with_context(|| format!("{}", link.display()))?;
        }
        // If both are links to one file already, `rename` leaves both.
        let _ = fs::remove_file(one_file.join("new"));
        Ok(Self { separate, one_file })
    }
}

/// Builds the tools as they are installed: together, since they share most of what they link.
pub fn static_tools() -> Result<Built> {
    Flavour::Normal.build_static(&TOOLS)
}

/// The commit that is checked out, with `-dirty` behind it if there are changes; `None`
/// without a repository.
pub fn commit() -> Option<String> {
    // The same for all that one run builds, even if a file is changed meanwhile.
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

//! `cargo xtask dist`: release archives, images and Debian packages of both flavours for the
//! host's architecture, and their checksums. The same commit gives the same bytes.

mod archive;
mod debian;
mod image;
mod licences;
mod readme;
pub(crate) mod reproduction;
mod system_library;

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use clap::Args;
use sha2::{Digest, Sha256};
use shipped::{
    DHCP_RENEWER, DOCKER_DAEMON, Executable, IPAMCTL, MULTI_CALL, NETWORK_EXECUTABLES, repository,
};

use crate::build::{self, FLAVOURS, Flavour, TOOLS};
use crate::cargo::{cargo, output, run as run_command};
use crate::target::Target;
use archive::Archive;

/// The file of checksums, in the format of `sha256sum --check`.
const SUMS: &str = "SHA256SUMS";

/// The folder of units in the repository, but for those of the daemon for Docker.
const UNITS: &str = "docs/systemd";

/// Packages and files of executables that are built together, so that nothing of one group is linked
/// into another, and their flavour: the tools have only one.
fn groups(flavour: Flavour) -> [(Flavour, Vec<[&'static str; 2]>); 3] {
    let of = |executable: Executable| [executable.package, executable.file];
    [
        (flavour, vec![of(MULTI_CALL)]),
        (flavour, NETWORK_EXECUTABLES.map(of).into()),
        (Flavour::Normal, TOOLS.map(|tool| [tool, tool]).into()),
    ]
}

/// Arguments of `cargo xtask dist`.
#[derive(Args)]
pub struct Dist {
    /// The folder for the archives; made if it isn't there. By default target/dist.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Make all of it once more, in a fresh clone in another folder, and compare the bytes.
    #[arg(long)]
    check: bool,
}

/// Properties of a release.
struct Release {
    version: &'static str,
    /// The commit, with `-dirty` behind it if there are changes; `None` without a repository.
    commit: Option<String>,
    /// Modification time of all files in an archive, in seconds since 1970.
    time: u64,
    target: Target,
}

/// Contents of a release's executables, by file.
type Executables = BTreeMap<&'static str, Vec<u8>>;

/// Makes the files of a release, and makes them again with `--check`.
///
/// # Errors
///
/// A build fails, a file cannot be written, or the second one differs.
pub fn run(arguments: &Dist) -> Result<()> {
    let default = || shipped::target_dir().join("dist");
    let out = arguments.out.clone().unwrap_or_else(default);
    make(&out)?;
    if arguments.check {
        reproduction::check(&out)?;
    }
    Ok(())
}

/// Makes the files of both flavours in the folder `out`.
fn make(out: &Path) -> Result<()> {
    fs::create_dir_all(out).with_context(|| out.display().to_string())?;
    let release = Release::of_this_checkout()?;
    let mut sums = BTreeMap::new();
    // All of them first: the man pages wait for whatever else cargo builds.
    let built = FLAVOURS.map(|flavour| (flavour, executables(flavour)));
    for (flavour, executables) in built {
        let (name, executables) = (release.name(flavour), executables?);
        let archive = release.archive(flavour, &executables)?;
        let compressed = archive.to_bytes(&name, release.time)?;
        let image = release.image(flavour, &executables)?;
        let package = release.package(flavour, archive)?;
        for (file, bytes) in [
            (format!("{name}.tar.gz"), compressed),
            (format!("{name}-image.tar"), image),
            (release.file_of_package(flavour), package),
        ] {
            let path = out.join(&file);
            fs::write(&path, &bytes).with_context(|| path.display().to_string())?;
            println!("{}", path.display());
            sums.insert(file, hex::encode(Sha256::digest(&bytes)));
        }
    }
    let lines = sums.iter().map(|(file, sum)| format!("{sum}  {file}\n"));
    let path = out.join(SUMS);
    fs::write(&path, lines.collect::<String>()).with_context(|| path.display().to_string())?;
    println!("{}", path.display());
    Ok(())
}

/// Builds and reads all executables of a flavour.
fn executables(flavour: Flavour) -> Result<Executables> {
    let mut executables = Executables::new();
    for (flavour, group) in groups(flavour) {
        let packages: Vec<&str> = group.iter().map(|[package, _]| *package).collect();
        let folder = flavour.build_static(&packages)?;
        for [_, file] in group {
            let path = folder.join(file);
            let content = fs::read(&path).with_context(|| path.display().to_string())?;
            executables.insert(file, content);
        }
    }
    Ok(executables)
}

/// Name of a flavour's package.
fn package(flavour: Flavour) -> &'static str {
    match flavour {
        Flavour::Normal => "ipam-delegated",
        Flavour::Verbose => "ipam-delegated-verbose",
    }
}

impl Release {
    fn of_this_checkout() -> Result<Self> {
        let commit = build::commit();
        if commit.is_none() {
            eprintln!("This is no git repository: --version will not name a commit.");
        }
        Ok(Self {
            version: env!("CARGO_PKG_VERSION"),
            commit,
            time: time()?,
            target: Target::of_releases()?,
        })
    }

    /// Name of an archive without its extension, and of the folder in it.
    fn name(&self, flavour: Flavour) -> String {
        let package = package(flavour);
        let architecture = self.target.architecture();
        format!("{package}-{}-{architecture}-linux", self.version)
    }

    fn archive(&self, flavour: Flavour, executables: &Executables) -> Result<Archive> {
        let mut archive = Archive::default();
        archive.plugins(["bin", "bin"], executables);
        let tools = [IPAMCTL, DOCKER_DAEMON, DHCP_RENEWER];
        for tool in tools {
            archive.executable(&[format!("sbin/{tool}")], &executables[tool]);
        }
        archive.text_files("share", share()?.path())?;
        let daemon = repository().join("crates").join(DOCKER_DAEMON);
        for units in [repository().join(UNITS), daemon.join("systemd")] {
            archive.text_files("lib/systemd/system", &units)?;
        }
        archive.text("LICENSE", fs::read(repository().join("LICENSE"))?);
        archive.text("README.md", readme::text(self, flavour)?);
        licences::gather(&mut archive, flavour, &self.target, &tools)?;
        Ok(archive)
    }
}

/// The man pages and completions, which an example of `ipamctl` writes.
fn share() -> Result<tempfile::TempDir> {
    let folder = tempfile::tempdir()?;
    // With the workspace's features, as the tests build it.
    let example = ["--workspace", "--example", "share"];
    run_command(cargo(&["build", "--quiet", "--locked"]).args(example))?;
    let built = shipped::debug_dir().join("examples/share");
    run_command(Command::new(built).arg(folder.path()))?;
    Ok(folder)
}

/// `SOURCE_DATE_EPOCH` if it is set, otherwise the commit's time.
fn time() -> Result<u64> {
    let variable = "SOURCE_DATE_EPOCH";
    if let Ok(time) = env::var(variable) {
        return time.parse().context(variable);
    }
    let mut git = Command::new("git");
    git.args(["log", "-1", "--format=%ct"]);
    match output(git.current_dir(repository())) {
        Ok(time) => Ok(time.parse()?),
        Err(_) => Ok(0),
    }
}

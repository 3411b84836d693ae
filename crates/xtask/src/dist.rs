//! `cargo xtask dist`: release archives and images of both flavours for the host's
//! architecture, and their checksums. The same commit gives the same bytes.

pub(crate) mod again;
mod archive;
mod command;
mod image;
mod licences;
mod readme;
mod system_library;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use clap::Args;
use harness::{DOCKER_DAEMON, MULTI_CALL, NETWORK_PLUGINS, PLUGINS, TOOL, repository};
use sha2::{Digest, Sha256};

use crate::build::{self, FLAVOURS, Flavour, static_tools};
use crate::cargo::output;
use crate::target::Target;
use archive::Archive;

/// The file of checksums, in the format of `sha256sum --check`.
const SUMS: &str = "SHA256SUMS";

/// Arguments of `cargo xtask dist`.
#[derive(Args)]
pub struct Dist {
    /// The folder for the archives; made if it isn't there. By default target/dist.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Only this flavour's archive.
    #[arg(long)]
    flavour: Option<Flavour>,
    /// Build once more, from a fresh clone in another folder, and compare the bytes.
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

/// Makes the archives and images, and makes them again with `--check`.
///
/// # Errors
///
/// A build fails, a file cannot be written, or the second build differs.
pub fn run(arguments: &Dist) -> Result<()> {
    let out = match &arguments.out {
        Some(out) => out.clone(),
        None => Flavour::Normal.target_dir().join("dist"),
    };
    let flavours = match arguments.flavour {
        Some(flavour) => vec![flavour],
        None => FLAVOURS.to_vec(),
    };
    make(&flavours, &out)?;
    if arguments.check {
        again::check(&flavours, &out)?;
    }
    Ok(())
}

/// Makes the archives of these flavours in the folder `out`.
pub(crate) fn make(flavours: &[Flavour], out: &Path) -> Result<()> {
    fs::create_dir_all(out).with_context(|| format!("{}", out.display()))?;
    let release = Release::of_this_checkout()?;
    let mut sums = String::new();
    for &flavour in flavours {
        let name = release.name(flavour);
        let bytes = release.archive(flavour)?.to_bytes(&name, release.time)?;
        let image = release.image(flavour)?;
        for (file, bytes) in [
            (format!("{name}.tar.gz"), bytes),
            (format!("{name}-image.tar"), image),
        ] {
            let path = out.join(&file);
            fs::write(&path, &bytes).with_context(|| format!("{}", path.display()))?;
            sums += &format!("{}  {file}\n", hex(&Sha256::digest(&bytes)));
            println!("{}", path.display());
        }
    }
    let path = out.join(SUMS);
    fs::write(&path, sums).with_context(|| format!("{}", path.display()))?;
    println!("{}", path.display());
    Ok(())
}

/// A sum as text.
fn hex(sum: &[u8]) -> String {
    sum.iter().map(|byte| format!("{byte:02x}")).collect()
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
        let package = match flavour {
            Flavour::Normal => "ipam-delegated",
            Flavour::Verbose => "ipam-delegated-verbose",
        };
        let architecture = self.target.architecture();
        format!("{package}-{}-{architecture}-linux", self.version)
    }

    fn archive(&self, flavour: Flavour) -> Result<Archive> {
        let built = flavour.build_static(&[MULTI_CALL])?;
        let mut archive = Archive::default();
        let file = built.one_file.join(PLUGINS[0]);
        let content = fs::read(&file).with_context(|| format!("{}", file.display()))?;
        archive.executable(&PLUGINS.map(|plugin| format!("bin/{plugin}")), content);
        // Built by themselves, so that nothing of them is linked into the others.
        let built = flavour.build_static(&NETWORK_PLUGINS)?;
        for plugin in NETWORK_PLUGINS {
            let file = built.separate.join(plugin);
            let content = fs::read(&file).with_context(|| format!("{}", file.display()))?;
            archive.executable(&[format!("bin/{plugin}")], content);
        }
        command::add(&mut archive)?;
        docker_daemon(&mut archive)?;
        archive.text("LICENSE", fs::read(repository().join("LICENSE"))?);
        archive.text("README.md", readme::text(self, flavour)?);
        licences::gather(&mut archive, flavour, &self.target, &[TOOL, DOCKER_DAEMON])?;
        Ok(archive)
    }
}

/// Adds the daemon for Docker and its units.
fn docker_daemon(archive: &mut Archive) -> Result<()> {
    let built = static_tools()?;
    let file = built.separate.join(DOCKER_DAEMON);
    let content = fs::read(&file).with_context(|| format!("{}", file.display()))?;
    archive.executable(&[format!("sbin/{DOCKER_DAEMON}")], content);
    for unit in ["service", "socket"] {
        let name = format!("{DOCKER_DAEMON}.{unit}");
        let units = repository()
            .join("crates")
            .join(DOCKER_DAEMON)
            .join("systemd");
        archive.text(
            &format!("lib/systemd/system/{name}"),
            fs::read(units.join(name))?,
        );
    }
    Ok(())
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

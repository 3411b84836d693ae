//! `cargo xtask test`: every check that the project has.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result};
use harness::{DNSMASQ, is_root};

use crate::build::{FLAVOURS, Flavour};
use crate::cargo::{self, cargo, shown};
use crate::dist;
use crate::target::Target;

/// What the end-to-end tests need, and the Debian package that has it.
const NEEDED: [(&str, &str); 5] = [
    ("bridge", "containernetworking-plugins"),
    (DNSMASQ, "dnsmasq-base"),
    ("/sbin/ip", "iproute2"),
    ("/bin/ping", "iputils-ping"),
    ("/usr/bin/strace", "strace"),
];

pub(crate) fn run() -> Result<()> {
    let started = Instant::now();
    step(&mut cargo(&["fmt", "--all", "--check"]))?;
    for features in [&[][..], &["--features", "verbose"]] {
        let lints = ["clippy", "--quiet", "--workspace", "--all-targets"];
        let deny = ["--", "--deny", "warnings"];
        step(&mut cargo(&[&lints, features, &deny].concat()))?;
    }
    let mut docs = cargo(&[
        "doc",
        "--quiet",
        "--workspace",
        "--no-deps",
        "--document-private-items",
    ]);
    step(docs.env("RUSTDOCFLAGS", "--deny warnings"))?;
    install_what_is_needed()?;
    tests()?;
    println!(
        "\nAll checks passed in {} seconds.",
        started.elapsed().as_secs()
    );
    Ok(())
}

fn step(command: &mut Command) -> Result<()> {
    println!("\n== {}", shown(command));
    cargo::run(command)
}

/// Unit, property and end-to-end tests, and the examples of the documentation.
fn tests() -> Result<()> {
    println!("\n== building the plugins in both flavours");
    let normal = Flavour::Normal.build("dev")?.separate;
    let verbose = Flavour::Verbose.build("dev")?.separate;
    let dist = archives()?;
    let examples = ["build", "--quiet", "--workspace", "--examples"];
    cargo::run(&mut cargo(&examples))?;
    let left_out = Flavour::Normal.target_dir().join("left-out");
    // Of an earlier run.
    let _ = fs::remove_file(&left_out);
    let on_these = |mut tests: Command| {
        tests
            .env("IPAM_DELEGATED_PLUGINS", &normal)
            .env("IPAM_DELEGATED_VERBOSE_PLUGINS", &verbose)
            .env("IPAM_DELEGATED_LEFT_OUT", &left_out);
        if let Some(dist) = &dist {
            tests.env("IPAM_DELEGATED_DIST", dist);
        }
        step(&mut tests)
    };
    let separate = on_these(run_of(&["--workspace"]));
    println!("\nOnce more with all plugins in one file:");
    let mut one_file = run_of(&["--package", "end-to-end"]);
    one_file.env("IPAM_DELEGATED_FORM", "one-file");
    let one_file = on_these(one_file);
    if let Ok(lines) = fs::read_to_string(&left_out) {
        println!("\nWhat this machine can't run:\n{lines}");
    }
    separate.and(one_file)?;
    step(&mut cargo(&["test", "--quiet", "--workspace", "--doc"]))?;
    match &dist {
        Some(dist) => the_same_again(dist),
        None => Ok(()),
    }
}

/// The folder with the archives of a release, if this machine can make them.
fn archives() -> Result<Option<PathBuf>> {
    println!("\n== making the archives of a release");
    if let Some(reason) = Target::of_releases()?.missing() {
        println!("Left out: {reason}.");
        return Ok(None);
    }
    let folder = Flavour::Normal.target_dir().join("dist-for-tests");
    // Of an earlier run, and perhaps of another version.
    let _ = fs::remove_dir_all(&folder);
    dist::make(&FLAVOURS, &folder)?;
    Ok(Some(folder))
}

/// Makes one archive once more. The other one is made in the same way, and takes as
/// long.
fn the_same_again(dist: &Path) -> Result<()> {
    println!("\n== making an archive once more, in another folder");
    if let Some(reason) = dist::again::why_not() {
        println!("Left out: {reason}.");
        return Ok(());
    }
    dist::again::check(&[Flavour::Normal], dist)
}

/// A run of all tests of these packages.
fn run_of(packages: &[&str]) -> Command {
    let arguments: &[&str] = if has_nextest() {
        &["nextest", "run", "--no-fail-fast", "--status-level", "fail"]
    } else {
        &["test", "--quiet", "--all-targets", "--no-fail-fast"]
    };
    cargo(&[arguments, packages].concat())
}

fn has_nextest() -> bool {
    let mut version = cargo(&["nextest", "--version"]);
    let status = version.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

fn install_what_is_needed() -> Result<()> {
    let mut packages: Vec<&str> = NEEDED
        .iter()
        .filter(|(what, _)| harness::missing(what).is_some())
        .map(|(_, package)| *package)
        .collect();
    packages.dedup();
    if !is_root() {
        println!(
            "\nNot run by root: tests in network namespaces are left out, and are named at the end."
        );
    }
    if packages.is_empty() {
        return Ok(());
    }
    let list = packages.join(" ");
    if is_root() && Path::new("/usr/bin/apt-get").exists() {
        step(Command::new("apt-get").args(["--quiet=2", "update"]))?;
        let mut install = Command::new("apt-get");
        install
            .args(["--quiet=2", "install", "--yes", "--no-install-recommends"])
            .args(&packages)
            .env("DEBIAN_FRONTEND", "noninteractive");
        step(&mut install).with_context(|| format!("the tests need Debian's {list}"))
    } else {
        println!("\nTests that need Debian's {list} are left out, and are named at the end.");
        Ok(())
    }
}

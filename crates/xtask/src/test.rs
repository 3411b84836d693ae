//! `cargo xtask test`: every check that the project has.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result};
use harness::{BUSYBOX, DNSMASQ, DOCKERD, ETCD, ETCDCTL, KUBECTL, LEFT_OUT_FILE, Reason, is_root};
use rustix::process::nice;

use crate::build::{BUILT_PLUGINS, FLAVOURS, Flavour};
use crate::cargo::{self, cargo, shown};
use crate::dist;
use crate::left_out::{Collector, in_ci};
use crate::service_policy::NoServices;
use crate::target::Target;

/// Programs and files that the end-to-end tests need, and their Debian packages.
const NEEDED: &[(&str, &str)] = &[
    (BUSYBOX, "busybox-static"),
    ("/usr/bin/conmon", "conmon"),
    ("/usr/bin/containerd", "containerd"),
    ("bridge", "containernetworking-plugins"),
    (DNSMASQ, "dnsmasq-base"),
    (DOCKERD, "docker.io"),
    (ETCDCTL, "etcd-client"),
    (ETCD, "etcd-server"),
    ("/sbin/ip", "iproute2"),
    ("/bin/ping", "iputils-ping"),
    ("/sbin/iptables", "iptables"),
    ("/usr/bin/jq", "jq"),
    (KUBECTL, "kubernetes-client"),
    ("/usr/bin/openssl", "openssl"),
    ("/usr/bin/podman", "podman"),
    ("/bin/ps", "procps"),
    ("/usr/bin/python3", "python3"),
    ("/usr/sbin/runc", "runc"),
    ("/usr/bin/strace", "strace"),
];

/// Parts of the names of tests that have nothing of the one file, or the one file in any case,
/// as in an image.
const OF_ONE_FORM: [&str; 8] = [
    "cluster::files",
    "cluster::killed",
    "cluster::not_etcd",
    "docker",
    "image::",
    "image_",
    "installer",
    "kubernetes",
];

/// Runs every check.
///
/// # Errors
///
/// A check fails.
pub fn run() -> Result<()> {
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
    let mut left_out = Collector::new(Flavour::Normal.target_dir().join("left-out"));
    let tested = tests(&mut left_out);
    let report = left_out.report()?;
    println!("\n{report}");
    tested.and(report.verdict(in_ci()))?;
    println!(
        "All checks passed in {} seconds.",
        started.elapsed().as_secs()
    );
    Ok(())
}

fn step(command: &mut Command) -> Result<()> {
    println!("\n== {}", shown(command));
    timed(|| cargo::run(command))
}

/// Says how long a step takes.
fn timed<T>(step: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let done = step();
    println!("   {} seconds", started.elapsed().as_secs());
    done
}

/// Runs unit, property and end-to-end tests, and the examples of the documentation.
fn tests(left_out: &mut Collector) -> Result<()> {
    println!("\n== building the plugins in both flavours");
    let [normal, verbose] = timed(|| {
        let normal = Flavour::Normal.build("dev")?.separate;
        let verbose = Flavour::Verbose.build("dev")?.separate;
        Flavour::Normal.build_tools("dev")?;
        anyhow::Ok([normal, verbose])
    })?;
    let dist = archives(left_out)?;
    let examples = ["build", "--quiet", "--workspace", "--examples"];
    cargo::run(&mut cargo(&examples))?;
    let file = left_out.file().clone();
    let on_these = |mut tests: Command| {
        tests
            .env(BUILT_PLUGINS, &normal)
            .env("IPAM_DELEGATED_VERBOSE_PLUGINS", &verbose)
            .env(LEFT_OUT_FILE, &file);
        if let Some(dist) = &dist {
            tests.env("IPAM_DELEGATED_DIST", dist);
        }
        step(&mut tests)
    };
    let again = dist.as_deref().filter(|_| can_be_made_again(left_out));
    thread::scope(|scope| {
        let again = again.map(|dist| scope.spawn(|| the_same_again(dist)));
        let separate = on_these(run_of_all());
        println!("\nOnce more with all plugins in one file:");
        let mut one_file = run_end_to_end();
        one_file.arg("--");
        for part in OF_ONE_FORM {
            one_file.args(["--skip", part]);
        }
        one_file.env("IPAM_DELEGATED_FORM", "one-file");
        let one_file = on_these(one_file);
        let examples = step(&mut cargo(&["test", "--quiet", "--workspace", "--doc"]));
        let again = again.map_or(Ok(()), |it| {
            println!("\n== making an archive once more, in another folder");
            timed(|| it.join().expect("it doesn't panic"))
        });
        separate.and(one_file).and(examples).and(again)
    })
}

/// Makes the archives of a release, if this machine can; returns their folder.
fn archives(left_out: &mut Collector) -> Result<Option<PathBuf>> {
    println!("\n== making the archives of a release");
    if let Some(reason) = Target::of_releases()?.missing() {
        left_out.add("archives of a release", Reason::Package(reason.to_owned()));
        return Ok(None);
    }
    let folder = Flavour::Normal.target_dir().join("dist-for-tests");
    // From an earlier run, perhaps of another version.
    let _ = std::fs::remove_dir_all(&folder);
    timed(|| dist::make(&FLAVOURS, &folder))?;
    Ok(Some(folder))
}

/// True if this checkout can be cloned to make its archives once more.
fn can_be_made_again(left_out: &mut Collector) -> bool {
    let Some(reason) = dist::again::why_not() else {
        return true;
    };
    let reason = Reason::Machine(reason.to_owned());
    left_out.add("the same archive again", reason);
    false
}

/// Makes one archive once more, in the time that the tests wait for something. The other
/// flavour's is made in the same way, and takes as long.
fn the_same_again(dist: &Path) -> Result<()> {
    // Of this thread, and of what it starts.
    let _ = nice(19);
    dist::again::check(&[Flavour::Normal], dist)
}

/// A run of all tests.
fn run_of_all() -> Command {
    if has_nextest() {
        nextest(&["--workspace"])
    } else {
        cargo_test(&["--workspace"])
    }
}

/// A run of the end-to-end tests.
fn run_end_to_end() -> Command {
    if has_nextest() {
        // By itself, the package would be compiled once more, with other features.
        nextest(&["--workspace", "-E", "package(end-to-end)"])
    } else {
        cargo_test(&["--package", "end-to-end"])
    }
}

fn nextest(arguments: &[&str]) -> Command {
    let run = ["nextest", "run", "--no-fail-fast", "--status-level", "fail"];
    let mut command = cargo(&[&run, arguments].concat());
    // One more than processors: the test with a Kubernetes cluster mostly waits.
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    command.args(["--test-threads", &(processors + 1).to_string()]);
    command
}

fn cargo_test(arguments: &[&str]) -> Command {
    let run = ["test", "--quiet", "--all-targets", "--no-fail-fast"];
    cargo(&[&run, arguments].concat())
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
        println!("\nNot root: tests in network namespaces are left out, and named at the end.");
    }
    if packages.is_empty() {
        return Ok(());
    }
    let list = packages.join(" ");
    if is_root() && Path::new("/usr/bin/apt-get").exists() {
        step(Command::new("apt-get").args(["--quiet=2", "update"]))?;
        let _no_services = NoServices::new()?;
        let mut install = Command::new("apt-get");
        install
            .args(["--quiet=2", "install", "--yes", "--no-install-recommends"])
            .args(&packages)
            .env("DEBIAN_FRONTEND", "noninteractive");
        step(&mut install).with_context(|| format!("the tests need Debian's {list}"))
    } else {
        println!("\nTests that need Debian's {list} are left out, and named at the end.");
        Ok(())
    }
}

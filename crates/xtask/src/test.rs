//! `cargo xtask test`: runs every check that the project has.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result};
use harness::{
    BUSYBOX, DNSMASQ, DOCKERD, ETCD, ETCDCTL, KUBECTL, LEFT_OUT_FILE, MULTI_CALL, Reason, is_root,
    report_left_out,
};
use rustix::process::nice;

use crate::build::{BUILT_PLUGINS, FLAVOURS, Flavour, build_tools, target_dir};
use crate::cargo::{self, cargo, shown};
use crate::dist::reproduction::{self, Original};
use crate::service_policy::NoServices;
use crate::target::Target;
use crate::{dist, left_out};

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

/// Parts of the names of tests that need the archives of a release, or mostly wait, as those with
/// Kubernetes clusters do.
const OF_A_RELEASE: [&str; 6] = [
    "image::",
    "image_",
    "in_an_empty_root::",
    "installing::",
    "kubernetes::",
    "releases::",
];

/// Parts of the names of further tests that don't depend on the form: they use no plugin of the one
/// file, or only as other tests do.
const OF_ONE_FORM: [&str; 13] = [
    "cluster::conflicts",
    "cluster::files",
    "cluster::identity",
    "cluster::killed",
    "cluster::not_etcd",
    "cluster::reconcile::",
    "cluster::redefined::",
    "cluster::restored_meanwhile::",
    "cluster_pool",
    "docker",
    "installer",
    "ipamctl",
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
    install_what_is_needed()?;
    let left_out = target_dir().join("left-out");
    let _ = std::fs::remove_file(&left_out);
    let tested = thread::scope(|scope| {
        // An executable of a release is linked by one processor.
        let archives = scope.spawn(|| archives(&left_out));
        lints_and_documentation()?;
        let plugins = build_for_tests()?;
        let of_a_release = scope.spawn({
            let (plugins, left_out) = (plugins.clone(), left_out.clone());
            move || {
                let dist = archives.join().expect("the thread doesn't panic")?;
                tests_of_a_release(&plugins, dist.as_deref(), &left_out)
            }
        });
        let tested = tests(&plugins, &left_out);
        tested.and(of_a_release.join().expect("the thread doesn't panic"))
    });
    let reported = left_out::report(&left_out);
    tested.and(reported)?;
    let seconds = started.elapsed().as_secs();
    println!("All checks passed in {seconds} seconds.");
    Ok(())
}

fn lints_and_documentation() -> Result<()> {
    let lints = ["clippy", "--quiet", "--workspace", "--all-targets"];
    for flavour in FLAVOURS {
        let deny = ["--", "--deny", "warnings"];
        step(cargo(&lints).args(flavour.features()).args(deny))?;
    }
    let doc = ["doc", "--quiet", "--workspace", "--no-deps"];
    let mut doc = cargo(&doc);
    doc.arg("--document-private-items");
    step(doc.env("RUSTDOCFLAGS", "--deny warnings"))
}

fn step(command: &mut Command) -> Result<()> {
    println!("\n== {}", shown(command));
    timed(|| cargo::run(command))
}

/// Prints the duration of a step.
fn timed<T>(step: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let done = step();
    println!("   {} seconds", started.elapsed().as_secs());
    done
}

/// Folders with separate plugins for the tests.
#[derive(Clone)]
struct Plugins {
    verbose: PathBuf,
    normal: PathBuf,
}

/// Builds whatever the tests need once, before several runs need it.
fn build_for_tests() -> Result<Plugins> {
    println!("\n== building the plugins in both flavours");
    let [verbose, normal] = timed(|| {
        let [verbose, normal] = FLAVOURS.map(|flavour| flavour.build("dev"));
        build_tools("dev")?;
        anyhow::Ok([verbose?.separate, normal?.separate])
    })?;
    let examples = ["build", "--quiet", "--workspace", "--examples"];
    cargo::run(&mut cargo(&examples))?;
    step(&mut cargo(&["test", "--quiet", "--workspace", "--no-run"]))?;
    Ok(Plugins { verbose, normal })
}

/// Runs unit, property and end-to-end tests in both forms, and the examples of the documentation.
fn tests(plugins: &Plugins, left_out: &Path) -> Result<()> {
    let skipped = |parts: &[&'static str]| -> Vec<&str> {
        parts.iter().flat_map(|part| ["--skip", part]).collect()
    };
    let of_a_release = skipped(&OF_A_RELEASE);
    let separate = step(&mut plugins.run("separate", Packages::All, left_out, &of_a_release));
    println!("\nOnce more with all plugins in one file:");
    let words = [of_a_release, skipped(&OF_ONE_FORM)].concat();
    let one_file = step(&mut plugins.run("one-file", Packages::EndToEnd, left_out, &words));
    let examples = step(&mut cargo(&["test", "--quiet", "--workspace", "--doc"]));
    separate.and(one_file).and(examples)
}

/// Runs the tests of [`OF_A_RELEASE`] with these archives, and makes the plugins' executable again.
fn tests_of_a_release(plugins: &Plugins, dist: Option<&Path>, left_out: &Path) -> Result<()> {
    let original = match dist {
        Some(_) => original(left_out)?,
        None => None,
    };
    thread::scope(|scope| {
        let again = scope.spawn(|| {
            // Of this thread, and of the build that it starts.
            let _ = nice(19);
            original.map_or(Ok(()), |original| reproduction::check(&[original]))
        });
        let mut tests = plugins.run("separate", Packages::EndToEnd, left_out, &OF_A_RELEASE);
        tests.envs(dist.map(|dist| ("IPAM_DELEGATED_DIST", dist)));
        let tested = step(&mut tests);
        tested.and(again.join().expect("the thread doesn't panic"))
    })
}

impl Plugins {
    /// A run of the tests with these parts in their names, and without those behind `--skip`.
    fn run(&self, form: &str, packages: Packages, left_out: &Path, words: &[&str]) -> Command {
        let mut tests = run_of_tests(packages);
        tests
            .arg("--")
            .args(words)
            .env("IPAM_DELEGATED_FORM", form)
            .env(BUILT_PLUGINS, &self.normal)
            .env("IPAM_DELEGATED_VERBOSE_PLUGINS", &self.verbose)
            .env(LEFT_OUT_FILE, left_out);
        tests
    }
}

/// Makes the archives of a release, if this machine can; returns their folder.
fn archives(left_out: &Path) -> Result<Option<PathBuf>> {
    println!("\n== making the archives of a release");
    if let Some(reason) = Target::of_releases()?.missing() {
        let reason = Reason::Package(reason.to_owned());
        report_left_out(Some(left_out), "archives of a release", &reason);
        return Ok(None);
    }
    let folder = target_dir().join("dist-for-tests");
    // From an earlier run, perhaps of another version.
    let _ = std::fs::remove_dir_all(&folder);
    timed(|| dist::make(&FLAVOURS, &folder))?;
    Ok(Some(folder))
}

/// The plugins' executable, if this checkout can be cloned to build it once more. The other
/// executables are built in the same way; `cargo xtask dist --check` compares all of them.
fn original(left_out: &Path) -> Result<Option<Original>> {
    if let Some(reason) = reproduction::why_not() {
        let reason = Reason::Machine(reason.to_owned());
        report_left_out(Some(left_out), "the same executable again", &reason);
        return Ok(None);
    }
    Original::build(Flavour::Normal, &[MULTI_CALL]).map(Some)
}

/// Packages whose tests are run.
#[derive(Clone, Copy, PartialEq)]
enum Packages {
    All,
    EndToEnd,
}

/// A run of tests. Parts of their names, and `--skip`, come behind `--`.
fn run_of_tests(packages: Packages) -> Command {
    let has_nextest = cargo(&["nextest", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !has_nextest {
        let mut command = cargo(&["test", "--quiet", "--all-targets", "--no-fail-fast"]);
        command.args(match packages {
            Packages::All => ["--workspace"].as_slice(),
            Packages::EndToEnd => &["--package", "end-to-end"],
        });
        return command;
    }
    let mut command = cargo(&["nextest", "run", "--no-fail-fast", "--status-level", "slow"]);
    // By itself, a package would be compiled once more, with other features.
    command.arg("--workspace");
    if packages == Packages::EndToEnd {
        command.args(["-E", "package(end-to-end)"]);
    }
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    command.args(["--test-threads", &processors.to_string()]);
    command
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

//! `cargo xtask test`: runs every check that the project has.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result};
use harness::{
    ALL_POINTS, BUILD_ENV, BUILT, BUSYBOX, DNSMASQ, DOCKERD, ETCD, ETCDCTL, KUBECTL, LEFT_OUT_FILE,
    Reason, SAMPLE, folder_of_builds, is_root, report_left_out, target_dir,
};

use crate::build::{COMMIT, STAND_INS, commit};
use crate::cargo::{self, cargo, shown};
use crate::compiler::LINTS;
use crate::dist::reproduction;
use crate::left_out;
use crate::link_flags::link_flags;
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
    ("/usr/sbin/dhcpd", "isc-dhcp-server"),
    ("/usr/sbin/kea-dhcp4", "kea-dhcp4-server"),
    ("/usr/sbin/kea-dhcp6", "kea-dhcp6-server"),
    ("/sbin/iptables", "iptables"),
    ("/usr/bin/jq", "jq"),
    (KUBECTL, "kubernetes-client"),
    ("/usr/bin/openssl", "openssl"),
    ("/usr/bin/podman", "podman"),
    ("/bin/ps", "procps"),
    ("/usr/bin/python3", "python3"),
    ("/usr/sbin/runc", "runc"),
    ("/usr/bin/strace", "strace"),
    ("/usr/bin/systemd-analyze", "systemd"),
];

/// The targets that the second thread runs, the first two with a release's archives.
const IN_SECOND_THREAD: [&str; 4] = ["release", "kubernetes", "node", "dhcp"];

/// The targets besides `fast`, which `cargo test` runs, in the first one.
const TARGETS: [&str; 4] = ["walks", "installer", "docker", "cluster"];

/// All that cargo builds, with the targets that run only when they are chosen.
const ALL_TARGETS: [&str; 3] = ["--all-targets", "--test", "*"];

/// Runs every check that a submission needs; with `all`, those of a release: whole walks, and
/// the same executable built again.
///
/// # Errors
///
/// A check fails.
pub fn run(all: bool) -> Result<()> {
    if BUILD_ENV.iter().any(|name| env::var_os(name).is_none()) {
        // Its variables are those of all that it runs.
        let mut again = Command::new(env::current_exe()?);
        again.args(env::args_os().skip(1)).envs(one_build()?);
        // The compiler's memory in large pages, which saves a fourteenth of its time.
        again.env("MALLOC_CONF", "thp:always,metadata_thp:always");
        return cargo::run(&mut again);
    }
    let started = Instant::now();
    let run = Run {
        all,
        left_out: target_dir().join("left-out"),
    };
    step(&mut cargo(&["fmt", "--all", "--check"]))?;
    install_what_is_needed()?;
    let _ = std::fs::remove_file(&run.left_out);
    build_for_tests()?;
    let tested = thread::scope(|scope| {
        let of_a_release = scope.spawn(|| run.tests_of_a_release());
        let tested = run.tests();
        tested.and(of_a_release.join().expect("the thread doesn't panic"))
    });
    let reported = left_out::report(&run.left_out, all);
    tested.and(reported)?;
    let seconds = started.elapsed().as_secs();
    println!("All checks passed in {seconds} seconds.");
    Ok(())
}

/// [`BUILD_ENV`] and the commit: executables, their tests and the archives have each dependency
/// compiled once, linked as a release links them, if this machine can.
fn one_build() -> Result<Vec<(&'static str, String)>> {
    let target = Target::of_releases()?;
    let flags = match target.missing() {
        None => link_flags(&target, &target_dir())?,
        Some(_) => Vec::new(),
    };
    // rustdoc, which compiles examples, doesn't know the others.
    let of_code = flags.iter().filter(|flag| flag.starts_with("-C")).cloned();
    let of_code = of_code.collect::<Vec<_>>().join("\x1f");
    let compiler = env::current_exe()?.display().to_string();
    let values = [target.triple, compiler, flags.join("\x1f"), of_code];
    let values = values.into_iter().chain(["0", "true"].map(str::to_owned));
    let mut variables: Vec<_> = BUILD_ENV.into_iter().zip(values).collect();
    variables.push((LINTS.0, LINTS.1.to_owned()));
    variables.extend(commit().map(|commit| (COMMIT, commit)));
    Ok(variables)
}

fn step(command: &mut Command) -> Result<()> {
    println!("\n== {}", shown(command));
    timed(&shown(command), || cargo::run(command))
}

/// Prints the duration of a step.
fn timed<T>(what: &str, step: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let done = step();
    println!("   {} seconds: {what}", started.elapsed().as_secs());
    done
}

/// Builds whatever the tests need once, before several runs need it.
fn build_for_tests() -> Result<()> {
    println!("\n== building the executables");
    timed("the executables", harness::build_all);
    let mut tests = cargo(&["test", "--quiet", "--workspace", "--no-run"]);
    step(tests.args(ALL_TARGETS))
}

/// A run of the tests.
struct Run {
    all: bool,
    /// The file with the tests that are skipped.
    left_out: PathBuf,
}

impl Run {
    /// Runs unit, property and end-to-end tests, and the examples of the documentation.
    fn tests(&self) -> Result<()> {
        let mut results = vec![step(&mut self.cargo_test(&["--workspace"]))];
        for target in TARGETS {
            results.push(step(&mut self.target(target)));
        }
        results.into_iter().collect()
    }

    /// Makes the archives of a release, and runs the targets that take them.
    fn tests_of_a_release(&self) -> Result<()> {
        let dist = self.archives()?;
        let tested = IN_SECOND_THREAD.map(|target| {
            let mut tests = self.target(target);
            tests.envs(dist.iter().map(|dist| ("IPAM_DELEGATED_DIST", dist)));
            tests.envs(self.stand_ins());
            // Callers under a swap keep both processors busy.
            let threads = if target == "release" { "1" } else { "2" };
            step(tests.args(["--", "--test-threads", threads]))
        });
        tested.into_iter().collect()
    }

    /// What stands in for a release's executables, but for those of `all`.
    fn stand_ins(&self) -> Option<(&'static str, PathBuf)> {
        (!self.all).then(|| (STAND_INS, folder_of_builds()))
    }

    /// Makes the archives of a release, if this machine can, with `all` twice; returns their folder.
    fn archives(&self) -> Result<Option<PathBuf>> {
        println!("\n== making the archives of a release");
        if let Some(reason) = Target::of_releases()?.missing() {
            let reason = Reason::Package(reason.to_owned());
            report_left_out(Some(&self.left_out), "archives of a release", &reason);
            return Ok(None);
        }
        let folder = target_dir().join("dist-for-tests");
        // From an earlier run, perhaps of another version.
        let _ = std::fs::remove_dir_all(&folder);
        let mut dist = Command::new(env::current_exe()?);
        dist.args(["dist", "--out"]).arg(&folder);
        match reproduction::why_not() {
            None if self.all => {
                dist.arg("--check");
            }
            Some(reason) if self.all => {
                let reason = Reason::Machine(reason.to_owned());
                report_left_out(Some(&self.left_out), "the same bytes again", &reason);
            }
            _ => {}
        }
        step(dist.envs(self.stand_ins()))?;
        Ok(Some(folder))
    }

    /// A target of the end-to-end tests.
    fn target(&self, name: &str) -> Command {
        // With the workspace's features, as all else.
        self.cargo_test(&["--workspace", "--test", name])
    }

    fn cargo_test(&self, arguments: &[&str]) -> Command {
        let mut tests = cargo(&["test", "--quiet", "--no-fail-fast"]);
        tests
            .args(arguments)
            .env(BUILT, folder_of_builds())
            // The real runtimes are written in Go: they take more memory, and less time.
            .env("GOGC", "400")
            .env(LEFT_OUT_FILE, &self.left_out);
        if self.all {
            tests.env(ALL_POINTS, "1");
        } else if let Some(sample) = commit().as_deref().and_then(number_of_commit) {
            tests.env(SAMPLE, sample.to_string());
        }
        tests
    }
}

/// The number that moves the sample of the walks from commit to commit.
fn number_of_commit(commit: &str) -> Option<u32> {
    u32::from_str_radix(commit.get(..4)?, 16).ok()
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use harness::repository;

    use super::*;

    #[test]
    fn every_target_of_the_end_to_end_tests_is_run() {
        let manifest = fs::read_to_string(repository().join("tests/Cargo.toml")).unwrap();
        let targets: BTreeSet<&str> = manifest
            .split("[[test]]\nname = \"")
            .skip(1)
            .filter_map(|target| target.split('"').next())
            .collect();
        let run = ["fast"].into_iter().chain(TARGETS);
        let run = run.chain(IN_SECOND_THREAD);
        assert_eq!(run.collect::<BTreeSet<&str>>(), targets);
    }
}

//! Reports skipped tests: in a list that a target prints at its end, and to a file that
//! `cargo xtask test` prints.

use std::fmt;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};
use std::thread;

use crate::{
    Call, KUBERNETES_PROGRAMS, Node, REFERENCE_PLUGINS, RUNTIMES, STRACE, dist, is_in_turn,
    is_root, kubernetes_programs,
};

/// The environment variable with the path of the file.
pub const LEFT_OUT_FILE: &str = "IPAM_DELEGATED_LEFT_OUT";

/// The first word of a line about a missing package.
pub const PACKAGE: &str = "package";

/// The reason why a test is skipped.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The user isn't root.
    Root,
    /// A package isn't installed. In CI, this is a failure.
    Package(String),
    /// The machine cannot run the test.
    Machine(String),
    /// The test is in the sample of other commits.
    Sample,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => write!(f, "user: it needs root"),
            Self::Package(text) => write!(f, "{PACKAGE}: {text}"),
            Self::Machine(text) => write!(f, "machine: {text}"),
            Self::Sample => write!(f, "sample: every second commit runs it, and --all"),
        }
    }
}

/// The tests that this process has skipped, with their reasons.
static LEFT_OUT: Mutex<Vec<(Reason, String)>> = Mutex::new(Vec::new());

/// Reports that the running test is skipped, because of the machine.
pub fn skip(reason: &str) {
    skip_for(Reason::Machine(reason.to_owned()));
}

/// Reports that the running test is skipped for this reason. The test's name is its thread's.
pub fn skip_for(reason: Reason) {
    let test = thread::current().name().unwrap_or("a test").to_owned();
    let file = std::env::var_os(LEFT_OUT_FILE).map(PathBuf::from);
    report_left_out(file.as_deref(), &test, &reason);
    LEFT_OUT.lock().unwrap().push((reason, test));
}

/// True if the running test is in this commit's sample, which has one of two neighbours; reports it
/// as skipped otherwise.
pub fn is_sampled(number: usize) -> bool {
    let is_sampled = is_in_turn(number);
    if !is_sampled {
        skip_for(Reason::Sample);
    }
    is_sampled
}

/// Appends a line about a skipped check to the file, if there is one.
pub fn report_left_out(file: Option<&Path>, check: &str, reason: &Reason) {
    let line = format!("{reason}: {check}\n");
    if let Some(file) = file {
        let opened = OpenOptions::new().append(true).create(true).open(file);
        opened
            .and_then(|mut file| file.write_all(line.as_bytes()))
            .expect("the list of tests that are left out");
    }
}

/// Prints the tests that this process has skipped so far.
pub fn print_left_out() {
    // The macros of the standard library would write to the captured output of the calling test.
    let mut stderr = std::io::stderr();
    for line in lines(&LEFT_OUT.lock().unwrap()) {
        let _ = writeln!(stderr, "\n{line}");
    }
}

/// The skipped tests in at most four lines: those that need root, those that need a package, those
/// for which the machine isn't enough, and those of other commits' samples.
fn lines(left_out: &[(Reason, String)]) -> Vec<String> {
    let line = |is_meant: fn(&Reason) -> bool| {
        let meant = left_out.iter().filter(|(reason, _)| is_meant(reason));
        let (mut reasons, tests): (Vec<String>, Vec<&str>) = meant
            .map(|(reason, test)| (reason.to_string(), test.as_str()))
            .unzip();
        reasons.sort();
        reasons.dedup();
        let (count, reasons, tests) = (tests.len(), reasons.join("; "), tests.join(", "));
        (count > 0).then(|| format!("{count} skipped ({reasons}): {tests}"))
    };
    [
        line(|reason| matches!(reason, Reason::Root)),
        line(|reason| matches!(reason, Reason::Package(_))),
        line(|reason| matches!(reason, Reason::Machine(_))),
        line(|reason| *reason == Reason::Sample),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Skips the test with a report, unless the machine has all of these requirements: `root`, who may
/// make namespaces; `trace`, for strace; `dist` for the archives of a release;
/// [`KUBERNETES_PROGRAMS`]; a reference plugin; or the path of a file. In a function that returns
/// an [`Option`], it returns `None`.
#[macro_export]
macro_rules! needs {
    ($($what:expr),+ $(,)?) => {
        $(
            if let Some(reason) = $crate::missing($what) {
                $crate::skip_for(reason);
                return Default::default();
            }
        )+
    };
}

/// The last test of a target, in the order of names: prints the tests that were skipped.
#[macro_export]
macro_rules! print_left_out_at_the_end {
    () => {
        mod zz_left_out {
            #[test]
            fn skipped_tests_are_named() {
                $crate::print_left_out();
            }
        }
    };
}

/// The reason why a requirement is missing; `None` if the machine has it.
pub fn missing(what: &str) -> Option<Reason> {
    static NO_NAMESPACES: OnceLock<Option<Reason>> = OnceLock::new();
    static NO_TRACE: OnceLock<Option<Reason>> = OnceLock::new();
    let machine = |text: &str| Reason::Machine(text.to_owned());
    match what {
        "root" if !is_root() => Some(Reason::Root),
        "root" => NO_NAMESPACES
            .get_or_init(|| Node::try_new().err().map(Reason::Machine))
            .clone(),
        "trace" => NO_TRACE.get_or_init(why_no_trace).clone(),
        "dist" => dist()
            .is_none()
            .then(|| machine("it needs the archives of a release, which cargo xtask test makes")),
        KUBERNETES_PROGRAMS => kubernetes_programs().is_none().then(|| {
            machine(&format!(
                "it needs Kubernetes and container runtimes; {RUNTIMES} names their folder"
            ))
        }),
        _ => {
            let path = match what.strip_prefix('/') {
                Some(_) => PathBuf::from(what),
                None => Path::new(REFERENCE_PLUGINS).join(what),
            };
            let reason = || Reason::Package(format!("{} is not installed", path.display()));
            (!path.exists()).then(reason)
        }
    }
}

/// The reason why strace can't trace a process.
fn why_no_trace() -> Option<Reason> {
    let not_installed = missing(STRACE);
    if not_installed.is_some() {
        return not_installed;
    }
    let strace = [STRACE, "-qq", "-o", "/dev/null"];
    let output = Call::new("/bin/true".into()).through(&strace).run();
    let reason = || Reason::Machine("no process may trace another".to_owned());
    (!output.status.success()).then(reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_tests_are_named_in_a_line_for_each_kind_of_reason() {
        let package = |text: &str| Reason::Package(text.to_owned());
        let left_out = [
            (package("jq is missing"), "chain::first".to_owned()),
            (Reason::Root, "node::second".to_owned()),
            (package("jq is missing"), "chain::third".to_owned()),
        ];
        let expected = [
            "1 skipped (user: it needs root): node::second",
            "2 skipped (package: jq is missing): chain::first, chain::third",
        ];
        assert_eq!(lines(&left_out), expected);
    }
}

//! Reports skipped tests: on the stderr of their target, and to a file that `cargo xtask test`
//! prints.

use std::fmt;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
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

/// Reports that the running test is skipped, because of the machine.
pub fn skip(reason: &str) {
    skip_for(&Reason::Machine(reason.to_owned()));
}

/// Reports that the running test is skipped for this reason. The test's name is its thread's.
pub fn skip_for(reason: &Reason) {
    let test = thread::current().name().unwrap_or("a test").to_owned();
    let file = std::env::var_os(LEFT_OUT_FILE).map(PathBuf::from);
    report_left_out(file.as_deref(), &test, reason);
    // The macros of the standard library would write to the captured output of the test.
    let _ = writeln!(std::io::stderr(), "\n{test} is skipped: {reason}");
}

/// True if the running test is in this commit's sample, which has one of two neighbours; reports it
/// as skipped otherwise.
pub fn is_sampled(number: usize) -> bool {
    let is_sampled = is_in_turn(number);
    if !is_sampled {
        skip_for(&Reason::Sample);
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

/// Skips the test with a report, unless the machine has all of these requirements: `root`, who may
/// make namespaces; `trace`, for strace; `dist` for the archives of a release;
/// [`KUBERNETES_PROGRAMS`]; a reference plugin; or the path of a file. In a function that returns
/// an [`Option`], it returns `None`.
#[macro_export]
macro_rules! needs {
    ($($what:expr),+ $(,)?) => {
        $(
            if let Some(reason) = $crate::missing($what) {
                $crate::skip_for(&reason);
                return Default::default();
            }
        )+
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

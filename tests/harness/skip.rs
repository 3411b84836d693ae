//! Reports skipped tests: on stderr, and to a file that `cargo xtask test` prints.

use std::fmt;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::{KUBERNETES_PROGRAMS, REFERENCE_PLUGINS, RUNTIMES, dist, is_root, kubernetes_programs};

/// The environment variable with the path of the file.
pub const LEFT_OUT_FILE: &str = "IPAM_DELEGATED_LEFT_OUT";

/// The first word of a line about a missing package.
pub const PACKAGE: &str = "package";

/// The reason why a test is skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A package isn't installed. In CI, this is a failure.
    Package(String),
    /// The machine, or its user, cannot run the test.
    Machine(String),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Package(text) => write!(f, "{PACKAGE}: {text}"),
            Self::Machine(text) => write!(f, "machine: {text}"),
        }
    }
}

/// Reports that a test is skipped because of the machine or its user.
pub fn skip(test: &str, reason: &str) {
    skip_for(test, &Reason::Machine(reason.to_owned()));
}

/// Reports that a test is skipped for this reason.
pub fn skip_for(test: &str, reason: &Reason) {
    let file = std::env::var_os(LEFT_OUT_FILE).map(PathBuf::from);
    report_left_out(file.as_deref(), test, reason);
}

/// Prints that a check is skipped, and appends a line about it to the file, if there is one.
///
/// # Panics
///
/// If the file cannot be written.
pub fn report_left_out(file: Option<&Path>, check: &str, reason: &Reason) {
    let line = format!("{reason}: {check}\n");
    eprint!("left out: {line}");
    if let Some(file) = file {
        let opened = OpenOptions::new().append(true).create(true).open(file);
        opened
            .and_then(|mut file| file.write_all(line.as_bytes()))
            .expect("the list of tests that are left out");
    }
}

/// Skips the test with a report, unless the machine has all of these requirements: `root`, `dist`
/// for the archives of a release, [`KUBERNETES_PROGRAMS`], a reference plugin, or the path of a
/// file.
#[macro_export]
macro_rules! needs {
    ($($what:expr),+ $(,)?) => {
        $(
            if let Some(reason) = $crate::missing($what) {
                $crate::skip_for(concat!(module_path!(), " line ", line!()), &reason);
                return;
            }
        )+
    };
}

/// The reason why a requirement is missing; `None` if the machine has it.
pub fn missing(what: &str) -> Option<Reason> {
    let machine = |text: &str| Reason::Machine(text.to_owned());
    match what {
        "root" => (!is_root()).then(|| machine("it needs root, for network namespaces")),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_there_is_a_missing_package() {
        assert!(matches!(missing("/nowhere/tool"), Some(Reason::Package(_))));
        assert!(matches!(
            missing("no-such-plugin"),
            Some(Reason::Package(_))
        ));
        assert_eq!(missing("/"), None);
    }
}

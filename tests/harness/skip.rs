//! Tests that are left out: printed on stderr, and collected in a file from which
//! `cargo xtask test` counts them.

use std::fmt;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::{KUBERNETES_PROGRAMS, REFERENCE_PLUGINS, RUNTIMES, dist, is_root, kubernetes_programs};

/// The environment variable with the path of the file that collects them.
pub const LEFT_OUT_FILE: &str = "IPAM_DELEGATED_LEFT_OUT";

/// The reason why something that a test needs isn't there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// A package isn't installed. In CI, this is a failure.
    Package(String),
    /// The machine, or its user, can't run the test.
    Machine(String),
}

/// A test that was left out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeftOut {
    /// The test's name or place.
    pub test: String,
    /// The reason.
    pub reason: Reason,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Package(text) | Self::Machine(text) => f.write_str(text),
        }
    }
}

impl LeftOut {
    /// The line for it in the file of [`LEFT_OUT_FILE`]; [`FromStr`] reads it.
    fn line(&self) -> String {
        let kind = match self.reason {
            Reason::Package(_) => "package",
            Reason::Machine(_) => "machine",
        };
        format!("{kind}\t{}\t{}\n", self.test, self.reason)
    }

    /// Prints it, and appends it to the file of [`LEFT_OUT_FILE`], if that is set.
    fn report(&self) {
        eprintln!("left out: {}: {}", self.test, self.reason);
        if let Some(file) = std::env::var_os(LEFT_OUT_FILE) {
            let file = OpenOptions::new().append(true).create(true).open(file);
            file.and_then(|mut file| file.write_all(self.line().as_bytes()))
                .expect("the list of tests that are left out");
        }
    }
}

impl FromStr for LeftOut {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, Self::Err> {
        let parts: Vec<&str> = line.splitn(3, '\t').collect();
        let reason = match parts[..] {
            ["package", _, reason] => Reason::Package(reason.to_owned()),
            ["machine", _, reason] => Reason::Machine(reason.to_owned()),
            _ => return Err(format!("not a test that was left out: {line:?}")),
        };
        let test = parts[1].to_owned();
        Ok(Self { test, reason })
    }
}

/// Reports that a test is left out because of the machine or its user.
pub fn skip(test: &str, reason: &str) {
    skip_for(test, Reason::Machine(reason.to_owned()));
}

/// Reports that a test is left out for this reason.
pub fn skip_for(test: &str, reason: Reason) {
    let test = test.to_owned();
    LeftOut { test, reason }.report();
}

/// Leaves the test out, with a report, unless the machine has all that is named:
/// `root`, `dist` for the archives of a release, [`KUBERNETES_PROGRAMS`], a reference plugin,
/// or the path of a file.
#[macro_export]
macro_rules! needs {
    ($($what:expr),+ $(,)?) => {
        $(
            if let Some(reason) = $crate::missing($what) {
                $crate::skip_for(concat!(module_path!(), " line ", line!()), reason);
                return;
            }
        )+
    };
}

/// The reason why something that a test needs isn't there; `None` if it is.
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
    fn a_test_that_was_left_out_is_read_back_from_its_line() {
        for reason in [
            missing("/nowhere/tool").unwrap(),
            Reason::Machine("no\tns".to_owned()),
        ] {
            let it = LeftOut {
                test: "chain line 7".to_owned(),
                reason,
            };
            assert_eq!(it.line().trim_end().parse(), Ok(it));
        }
        assert!("something else".parse::<LeftOut>().is_err());
    }

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

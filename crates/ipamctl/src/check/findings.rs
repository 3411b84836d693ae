//! Findings in a conflist: key, problem, and what to write instead.

use std::path::{Path, PathBuf};

use conflist::Problem;
use serde::Serialize;

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Severity {
    /// Containers will not start, or two containers will get one address.
    Error,
    /// Containers start, but something will fail later.
    Warning,
}

/// A finding. The keys are documented, and don't change their meaning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub(crate) file: PathBuf,
    /// The key in the file; empty for the file as a whole.
    pub(crate) key: String,
    pub(crate) severity: Severity,
    pub(crate) problem: String,
    /// What to write or to do instead.
    pub(crate) instead: String,
}

impl Finding {
    /// An error in the file as a whole.
    pub(crate) fn of_file(file: &Path, problem: impl Into<String>, instead: &str) -> Self {
        Self {
            file: file.to_owned(),
            key: String::new(),
            severity: Severity::Error,
            problem: problem.into(),
            instead: instead.to_owned(),
        }
    }

    /// The finding for a file that no runtime can use.
    pub(crate) fn unusable(problem: &Problem) -> Self {
        let instead = "a configuration that a runtime can read";
        Self::of_file(&problem.path, &problem.reason, instead)
    }
}

/// The key at the start of a message such as `ipam.ranges[0].subnet: …`.
pub(crate) fn key_of(reason: &str) -> &str {
    let end = reason.find([':', ' ']).unwrap_or(0);
    &reason[..end]
}

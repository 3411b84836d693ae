//! Findings in a conflist: key, problem, and what to write instead.

use std::collections::HashSet;
use std::fmt::Display;
use std::path::{Path, PathBuf};

use conflist::Problem;
use serde::Serialize;

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
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
    /// The finding for a file that no runtime can use.
    pub(crate) fn unusable(problem: &Problem) -> Self {
        Self {
            file: problem.path.clone(),
            key: String::new(),
            severity: Severity::Error,
            problem: problem.reason.clone(),
            instead: "a configuration that a runtime can read".to_owned(),
        }
    }
}

/// Collects the findings of one file, each once.
pub(crate) struct Findings<'a> {
    file: &'a Path,
    pub(crate) all: Vec<Finding>,
    /// Key and problem of each.
    known: HashSet<(String, String)>,
}

impl<'a> Findings<'a> {
    pub(crate) fn of(file: &'a Path) -> Self {
        Self {
            file,
            all: Vec::new(),
            known: HashSet::new(),
        }
    }

    pub(crate) fn error(
        &mut self,
        key: &str,
        problem: impl Into<String>,
        instead: impl Into<String>,
    ) {
        self.add(Severity::Error, key, problem.into(), instead.into());
    }

    pub(crate) fn warning(
        &mut self,
        key: &str,
        problem: impl Into<String>,
        instead: impl Into<String>,
    ) {
        self.add(Severity::Warning, key, problem.into(), instead.into());
    }

    fn add(&mut self, severity: Severity, key: &str, problem: String, instead: String) {
        if self.known.insert((key.to_owned(), problem.clone())) {
            self.all.push(Finding {
                file: self.file.to_owned(),
                key: key.to_owned(),
                severity,
                problem,
                instead,
            });
        }
    }
}

/// The first `most` items, and the number of the others.
pub(crate) fn listed<T: Display>(items: impl IntoIterator<Item = T>, most: usize) -> String {
    let mut texts: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    if texts.len() > most {
        let more = format!("{} more", texts.len() - most);
        texts.truncate(most);
        texts.push(more);
    }
    texts.join(", ")
}

/// The key at the start of a message such as `ipam.ranges[0].subnet: …`.
pub(crate) fn key_of(reason: &str) -> &str {
    let end = reason.find([':', ' ']).unwrap_or(0);
    &reason[..end]
}

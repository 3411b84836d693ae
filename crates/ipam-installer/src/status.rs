//! Status for the readiness probe: ready or not, the version, and the problems.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::folder::create_all;

/// State of a running installer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Status {
    /// Version, commit and flavour of its files.
    pub(crate) version: String,
    /// The problems, by part; empty if it is ready.
    pub(crate) problems: BTreeMap<String, String>,
}

impl Status {
    /// True if there are no problems.
    pub(crate) fn is_ready(&self) -> bool {
        self.problems.is_empty()
    }

    /// One line for people.
    pub(crate) fn text(&self) -> String {
        let Self { version, problems } = self;
        let problems: Vec<String> = problems
            .iter()
            .map(|(part, it)| format!("{part}: {it}"))
            .collect();
        if problems.is_empty() {
            format!("ready: {version}")
        } else {
            format!("not ready: {version}: {}", problems.join("; "))
        }
    }

    /// Writes the status for the probe, atomically.
    pub(crate) fn write(&self, file: &Path) -> Result<()> {
        let failed = || format!("{}", file.display());
        if let Some(folder) = file.parent() {
            create_all(folder, 0o755).with_context(failed)?;
        }
        let new = file.with_extension("new");
        fs::write(&new, serde_json::to_vec(self)?).with_context(failed)?;
        fs::rename(&new, file).with_context(failed)
    }

    /// Reads the status of a running installer.
    pub(crate) fn read(file: &Path) -> Result<Self> {
        let content = fs::read(file).with_context(|| format!("{}", file.display()))?;
        serde_json::from_slice(&content).with_context(|| format!("{}", file.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_reads_what_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("run/status.json");
        assert!(Status::read(&file).is_err());
        let mut status = Status {
            version: "1.0.0".to_owned(),
            problems: BTreeMap::new(),
        };
        assert_eq!(status.text(), "ready: 1.0.0");
        let problem = ("plugins".to_owned(), "disk full".to_owned());
        status.problems.extend([problem]);
        status.write(&file).unwrap();
        let read = Status::read(&file).unwrap();
        assert_eq!(read, status);
        assert_eq!(read.text(), "not ready: 1.0.0: plugins: disk full");
    }
}

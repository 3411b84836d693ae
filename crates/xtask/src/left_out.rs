//! Checks that were left out: counted and printed at the end of a run. In CI, one for a
//! missing package fails the run.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::fs;
use std::path::PathBuf;

use anyhow::{Result, bail, ensure};
use harness::{LeftOut, Reason};

/// Collects what a run leaves out: the tests report to a file, the run's own checks by
/// [`Self::add`].
pub(crate) struct Collector {
    file: PathBuf,
    own: Vec<LeftOut>,
}

/// All that a run has left out.
#[derive(Default)]
pub(crate) struct Report(Vec<LeftOut>);

impl Collector {
    /// One with this file, which is removed if it is there.
    pub(crate) fn new(file: PathBuf) -> Self {
        let _ = fs::remove_file(&file);
        Self {
            file,
            own: Vec::new(),
        }
    }

    /// The file for the tests to report to.
    pub(crate) fn file(&self) -> &PathBuf {
        &self.file
    }

    /// Prints and adds a check that is left out.
    pub(crate) fn add(&mut self, check: &str, reason: Reason) {
        println!("Left out: {reason}.");
        let test = check.to_owned();
        self.own.push(LeftOut { test, reason });
    }

    /// All that was left out so far.
    pub(crate) fn report(&self) -> Result<Report> {
        // Without a file, no test has reported anything.
        let lines = fs::read_to_string(&self.file).unwrap_or_default();
        let tests = lines.lines().map(str::parse::<LeftOut>);
        let mut all = self.own.clone();
        for it in tests {
            match it {
                Ok(it) => all.push(it),
                Err(reason) => bail!("{}: {reason}", self.file.display()),
            }
        }
        Ok(Report(all))
    }
}

impl Report {
    /// # Errors
    ///
    /// In CI, a package is missing: the run would have claimed more than it checked.
    pub(crate) fn verdict(&self, in_ci: bool) -> Result<()> {
        let of_packages = |it: &&LeftOut| matches!(it.reason, Reason::Package(_));
        let count = self.0.iter().filter(of_packages).count();
        ensure!(
            !in_ci || count == 0,
            "CI=true, and {count} of the checks that were left out lack a package"
        );
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("No test was left out.");
        }
        // The tests run in two forms, so most are left out twice.
        let mut counts = BTreeMap::<&LeftOut, usize>::new();
        for it in &self.0 {
            *counts.entry(it).or_default() += 1;
        }
        write!(f, "{} left out:", self.0.len())?;
        for (LeftOut { test, reason }, count) in counts {
            f.write_char('\n')?;
            write!(f, "  {count} × {test}: {reason}")?;
        }
        Ok(())
    }
}

/// True if this is a run of CI: `CI=true`.
pub(crate) fn in_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| value == "true")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left_out(test: &str, reason: Reason) -> LeftOut {
        let test = test.to_owned();
        LeftOut { test, reason }
    }

    #[test]
    fn in_ci_a_missing_package_fails_the_run_and_a_missing_right_does_not() {
        let package = left_out("dhcp", Reason::Package("dhcp is not installed".to_owned()));
        let right = left_out("bridge", Reason::Machine("it needs root".to_owned()));
        let both = Report(vec![right.clone(), package]);
        assert!(both.verdict(true).is_err());
        assert!(both.verdict(false).is_ok());
        assert!(Report(vec![right]).verdict(true).is_ok());
    }

    #[test]
    fn what_was_left_out_is_counted_and_named() {
        let it = left_out("bridge", Reason::Machine("it needs root".to_owned()));
        let report = Report(vec![it.clone(), it]);
        assert_eq!(
            report.to_string(),
            "2 left out:\n  2 × bridge: it needs root"
        );
        assert_eq!(Report::default().to_string(), "No test was left out.");
    }

    #[test]
    fn reports_of_tests_are_read_from_the_file_and_a_stale_file_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("left-out");
        fs::write(&file, "of an earlier run").unwrap();
        let mut collector = Collector::new(file.clone());
        assert!(collector.report().unwrap().0.is_empty());
        fs::write(&file, "package\tdhcp line 3\tdhcp is not installed\n").unwrap();
        collector.add("archive", Reason::Machine("no commit".to_owned()));
        assert_eq!(collector.report().unwrap().0.len(), 2);
        fs::write(&file, "nonsense\n").unwrap();
        assert!(collector.report().is_err());
    }
}

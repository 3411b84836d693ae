//! Findings in conflists: what an administrator gets wrong, before a container does.
//!
//! Each submodule has one subject. They look at conflists, and at the machine through
//! [`host::Host`] alone.

pub(crate) mod capabilities;
pub(crate) mod collection;
pub(crate) mod delegates;
pub(crate) mod folders;
pub(crate) mod host;
pub(crate) mod main_plugin;
pub(crate) mod moved_ranges;
pub(crate) mod overlaps;
mod range_index;
pub(crate) mod rules;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use cni::Environment;
use conflist::{Conflist, Problem};
use serde::Serialize;

use crate::node::network::{CHAIN, Network};
use crate::node::pools::{PlacedPool, Pools};
use host::Host;
use range_index::RangeIndex;

/// Weight of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Severity {
    /// Containers will not start, or addresses will be given twice.
    Error,
    /// It works for now.
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

/// Collects the findings of one file.
pub(crate) struct Findings<'a> {
    file: &'a Path,
    all: Vec<Finding>,
    /// Key and problem of each, so that each is there once.
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
        let finding = Finding {
            file: self.file.to_owned(),
            key: key.to_owned(),
            severity,
            problem,
            instead,
        };
        let known = (finding.key.clone(), finding.problem.clone());
        if self.known.insert(known) {
            self.all.push(finding);
        }
    }
}

/// A network with the pools of its configuration.
pub(crate) struct Checked<'a> {
    pub(crate) conflist: &'a Conflist,
    pub(crate) network: Option<Network>,
    pub(crate) pools: Vec<PlacedPool>,
}

/// The finding of a file that no runtime can use.
pub(crate) fn unusable(problem: &Problem) -> Finding {
    Finding {
        file: problem.path.clone(),
        key: String::new(),
        severity: Severity::Error,
        problem: problem.reason.clone(),
        instead: "a configuration that a runtime can read".to_owned(),
    }
}

/// The findings of the conflists that `is_wanted` selects, beside all others.
pub(crate) fn findings(
    conflists: &[Conflist],
    is_wanted: impl Fn(&Conflist) -> bool,
    host: &Host<'_>,
    environment: &Environment,
) -> Vec<Finding> {
    let mut all = Vec::new();
    let mut checked = Vec::with_capacity(conflists.len());
    for conflist in conflists {
        let mut findings = Findings::of(&conflist.file);
        let it = read(conflist, environment, &mut findings);
        if is_wanted(conflist) {
            all.extend(findings.all);
        }
        checked.push(it);
    }
    let ranges = RangeIndex::of(&checked);
    for (i, it) in checked.iter().enumerate() {
        if !is_wanted(it.conflist) {
            continue;
        }
        let mut findings = Findings::of(&it.conflist.file);
        if let Some(earlier) = checked[..i]
            .iter()
            .find(|other| other.conflist.name == it.conflist.name)
        {
            findings.error(
                "name",
                format!(
                    "{} is the name of the network in {}, too; runtimes use the first file",
                    it.conflist.name,
                    earlier.conflist.file.display()
                ),
                "a name of its own",
            );
        }
        delegates::check(it, host, environment, &mut findings);
        main_plugin::check(it, &mut findings);
        capabilities::check(it, &mut findings);
        collection::check(it, &mut findings);
        if let Some(network) = &it.network {
            folders::check(network, host, &mut findings);
        }
        overlaps::check(i, &checked, &ranges, host, &mut findings);
        moved_ranges::check(it, &checked, host, &mut findings);
        all.extend(findings.all);
    }
    all
}

/// Reads the network of a conflist, and says what is wrong with its settings.
fn read<'a>(
    conflist: &'a Conflist,
    environment: &Environment,
    findings: &mut Findings<'_>,
) -> Checked<'a> {
    let mut checked = Checked {
        conflist,
        network: None,
        pools: Vec::new(),
    };
    match Network::of(conflist, environment) {
        Err(reason) => findings.error(key_of(&reason), reason.clone(), "a value of that kind"),
        Ok(None) => {}
        Ok(Some(network)) => {
            let mut pools = Pools::default();
            pools.add_configured(&network, environment);
            for (_, reason) in &pools.problems {
                findings.error(
                    key_of(reason),
                    reason.clone(),
                    "ranges as docs/configuration.md has them",
                );
            }
            rules::check(&network, findings);
            checked.pools = pools.all;
            checked.network = Some(network);
        }
    }
    let uses_chain = conflist
        .plugins
        .iter()
        .any(|it| it.ipam_type() == Some(CHAIN));
    if let Some(version) = &conflist.unsupported_version
        && uses_chain
    {
        findings.error(
            "cniVersion",
            format!("{version} is not supported by {CHAIN}"),
            "\"cniVersion\": \"1.0.0\"",
        );
    }
    checked
}

/// The key at the start of a message such as `ipam.ranges[0].subnet: …`.
fn key_of(reason: &str) -> &str {
    let end = reason.find([':', ' ']).unwrap_or(0);
    &reason[..end]
}

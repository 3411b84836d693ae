//! `ipamctl check`: findings in conflists.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Result, ensure};
use conflist::{Conflist, Found};

use crate::arguments::CheckArguments;
use crate::check::findings::{Finding, Severity};
use crate::check::host::Host;
use crate::check::{are_roots, findings};
use crate::context::Context;
use crate::node::Node;
use crate::output::{Output, Style, joined, warn};

pub(crate) fn run(arguments: &CheckArguments, context: &Context<'_>) -> Result<bool> {
    let (places, output) = (context.places, context.output);
    let mut found = Found::in_folders(&places.conf_dir);
    let only = arguments.file.as_deref();
    if let Some(file) = only {
        ensure!(file.is_file(), "{}: there is no such file", file.display());
        add(file, &mut found);
    }
    let is_wanted = |path: &Path| only.is_none_or(|file| file == path);
    let problems = found.problems.iter();
    let problems = problems.filter(|problem| is_wanted(&problem.path));
    let mut all: Vec<Finding> = problems.map(Finding::unusable).collect();
    let node = Node::with(found, places, context.environment);
    ensure!(
        !node.conflists.is_empty() || !node.problems.is_empty(),
        "there is no conflist in {}",
        joined(places.conf_dir.iter().map(|folder| folder.display()), ", ")
    );
    let host = Host::this(&node.environment, !arguments.no_exec);
    let wanted = |conflist: &Conflist| is_wanted(&conflist.file);
    all.extend(findings(&node.conflists, wanted, &host));
    let mut networks = node.networks.iter();
    if networks.any(|network| is_wanted(&network.file) && are_roots(network, &host)) {
        warn("only root can test whether the folders are writable; run ipamctl as root");
    }
    output.print(&all, || {
        if !all.is_empty() {
            return lines(&all, output);
        }
        let wanted = node.conflists.iter().filter(|conflist| wanted(conflist));
        match wanted.count() {
            1 => vec!["Nothing is found in 1 conflist.".to_owned()],
            files => vec![format!("Nothing is found in {files} conflists.")],
        }
    })?;
    Ok(!all.is_empty())
}

/// Adds a file. A new file replaces the installed one of its network.
fn add(file: &Path, found: &mut Found) {
    let Found {
        conflists,
        problems,
    } = found;
    let before = conflists.len() + problems.len();
    conflists.retain(|conflist| !is_same(&conflist.file, file));
    problems.retain(|problem| !is_same(&problem.path, file));
    let others = conflists.len();
    let is_installed = others + problems.len() < before;
    found.add(file);
    if let Some(new) = found.conflists.get(others).filter(|_| !is_installed) {
        let name = new.name.clone();
        let conflists = &mut found.conflists;
        conflists.retain(|conflist| conflist.name != name || conflist.file == *file);
    }
}

fn is_same(one: &Path, other: &Path) -> bool {
    let real = one.canonicalize().ok();
    one == other || real.is_some() && real == other.canonicalize().ok()
}

fn lines(all: &[Finding], output: Output) -> Vec<String> {
    let mut lines = Vec::new();
    let files: BTreeSet<&Path> = all.iter().map(|finding| finding.file.as_path()).collect();
    for file in files {
        lines.push(output.styled(Style::Bold, &file.display().to_string()));
        for finding in all.iter().filter(|finding| finding.file == file) {
            let severity = match finding.severity {
                Severity::Error => output.styled(Style::Red, "error"),
                Severity::Warning => output.styled(Style::Yellow, "warning"),
            };
            let Finding { key, problem, .. } = finding;
            let key = match key.is_empty() || problem.starts_with(key) {
                true => String::new(),
                false => format!("{key}: "),
            };
            lines.push(format!("  {severity}: {key}{problem}"));
            lines.push(format!("    instead: {}", finding.instead));
        }
    }
    lines
}

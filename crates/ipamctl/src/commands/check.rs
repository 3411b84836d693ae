//! `ipamctl check`: findings in conflists.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Result, ensure};
use conflist::{Conflist, Found};

use crate::arguments::{CheckArguments, Places};
use crate::check::findings::{Finding, Severity};
use crate::check::host::Host;
use crate::check::{findings, folders};
use crate::exit_status::Status;
use crate::node::Node;
use crate::output::{Output, Style, warn};

pub(crate) fn run(
    arguments: &CheckArguments,
    places: &Places,
    environment: &cni::Environment,
    output: Output,
) -> Result<Status> {
    let mut found = Found::in_folders(&places.conf_dir);
    let only = arguments.file.as_ref();
    if let Some(file) = only {
        ensure!(file.is_file(), "{}: there is no such file", file.display());
        let is_it = |path: &PathBuf| same_file(path, file);
        let is_installed = found.conflists.iter().any(|it| is_it(&it.file))
            || found.problems.iter().any(|it| is_it(&it.path));
        found.conflists.retain(|it| !is_it(&it.file));
        found.problems.retain(|it| !is_it(&it.path));
        let others = found.conflists.len();
        found.add(file);
        // A new file replaces the installed one of its network.
        if let Some(new) = found.conflists.get(others).filter(|_| !is_installed) {
            let name = new.name.clone();
            found
                .conflists
                .retain(|it| it.name != name || it.file == *file);
        }
    }
    let is_wanted = |path: &PathBuf| only.is_none_or(|file| file == path);
    let problems = found.problems.iter().filter(|it| is_wanted(&it.path));
    let mut all: Vec<Finding> = problems.map(Finding::unusable).collect();
    let node = Node::with(found, places, environment);
    ensure!(
        !node.conflists.is_empty() || !node.problems.is_empty(),
        "there is no conflist in {}",
        list(&places.conf_dir)
    );
    let host = Host::this(&node.environment, !arguments.no_exec);
    let wanted = |conflist: &Conflist| is_wanted(&conflist.file);
    all.extend(findings(&node.conflists, wanted, &host, &node.environment));
    let mut networks = node.networks.iter().filter(|it| is_wanted(&it.file));
    if networks.any(|it| folders::are_roots(it, &host)) {
        warn("only root can say whether the folders can be written; run ipamctl as root");
    }
    if output.json {
        Output::json(&all)?;
    } else {
        output.lines(text(&all, output))?;
        let files = node.conflists.iter().filter(|it| wanted(it)).count();
        if all.is_empty() {
            let plural = if files == 1 { "" } else { "s" };
            output.lines([format!("Nothing is found in {files} conflist{plural}.")])?;
        }
    }
    Ok(Status::of(!all.is_empty()))
}

fn same_file(one: &PathBuf, other: &PathBuf) -> bool {
    one == other
        || one
            .canonicalize()
            .ok()
            .is_some_and(|it| other.canonicalize().ok() == Some(it))
}

fn list(folders: &[PathBuf]) -> String {
    let folders: Vec<String> = folders.iter().map(|it| it.display().to_string()).collect();
    folders.join(", ")
}

fn text(all: &[Finding], output: Output) -> Vec<String> {
    let mut lines = Vec::new();
    let files: BTreeSet<&PathBuf> = all.iter().map(|it| &it.file).collect();
    for file in files {
        lines.push(output.styled(Style::Bold, &file.display().to_string()));
        for it in all.iter().filter(|it| it.file == *file) {
            let severity = match it.severity {
                Severity::Error => output.styled(Style::Red, "error"),
                Severity::Warning => output.styled(Style::Yellow, "warning"),
            };
            let key = if it.key.is_empty() || it.problem.starts_with(&it.key) {
                String::new()
            } else {
                format!("{}: ", it.key)
            };
            lines.push(format!("  {severity}: {key}{}", it.problem));
            lines.push(format!("    instead: {}", it.instead));
        }
    }
    lines
}

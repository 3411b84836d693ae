//! `ipamctl check`: reads the conflists, or a cluster's pools, and prints what [`crate::check`] finds.
//!
//! The installer checks new files before they are in place: `--pools-dir` lets conflists read a staged
//! catalogue, and findings name the place where it will be.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use cluster::until_answered;
use cni::NetworkConfig;
use conflist::{Conflist, Listing};
use ipam::Pool;
use ipam_ds_rules::pools;
use rustix::process::geteuid;
use serde_json::json;

use crate::Context;
use crate::arguments::CheckArguments;
use crate::check::findings::{Finding, Severity};
use crate::check::{default_network_finding, findings, real};
use crate::clusters::Cluster;
use crate::inventory::Inventory;
use crate::network::with_keys;
use crate::output::{joined, warn};

pub(crate) fn run(arguments: &CheckArguments, context: &Context<'_>) -> Result<bool> {
    let sources = context.sources;
    if let Some(kubeconfig) = &sources.kubeconfig {
        return print(&cluster_findings(kubeconfig)?, context);
    }
    let mut found = Listing::in_folders(&sources.conf_dir);
    let only = arguments.file.as_deref();
    if let Some(file) = only {
        ensure!(file.is_file(), "{}: there is no such file", file.display());
        add(file, &mut found);
    }
    let problems = found.problems.iter();
    let mut all: Vec<Finding> = problems.map(Finding::unusable).collect();
    for (old, new) in &arguments.pools_dir {
        if !redirect(&mut found.conflists, old, new)? {
            all.extend(unread(old, new));
        }
    }
    let node = context.node_with(found);
    ensure!(
        !node.conflists.is_empty() || !node.problems.is_empty() || !arguments.pools_dir.is_empty(),
        "there is no conflist in {}; name the folder by --conf-dir",
        joined(sources.conf_dir.iter().map(|folder| folder.display()), ", ")
    );
    let compared = (!arguments.no_exec).then(|| Inventory::from_files(&node));
    let inventory = compared.unwrap_or_default();
    inventory.problems.iter().for_each(warn);
    let (conflists, no_exec) = (&node.conflists, arguments.no_exec);
    all.extend(findings(conflists, &inventory, no_exec, &node.environment));
    all.retain(|finding| only.is_none_or(|file| finding.file == file));
    if arguments.default {
        all.extend(only.and_then(default_network_finding));
    }
    for (old, new) in &arguments.pools_dir {
        let [old, new] = [old, new].map(|folder| folder.to_string_lossy());
        for finding in &mut all {
            finding.problem = finding.problem.replace(&*new, &old);
            finding.key = finding.key.replace(&*new, &old);
        }
    }
    if arguments.errors {
        all.retain(|finding| finding.severity == Severity::Error);
    }
    if !geteuid().is_root() {
        warn("only root can test whether the folders are writable; run ipamctl as root");
    }
    print(&all, context)
}

/// Prints findings; true if there is one.
fn print(all: &[Finding], context: &Context<'_>) -> Result<bool> {
    context.print(&all, || match all {
        [] => vec!["Nothing is found.".to_owned()],
        all => lines(all),
    })?;
    Ok(!all.is_empty())
}

/// The findings in a cluster's pools: what the API server's schema can't say, and what was written
/// before it said so.
fn cluster_findings(kubeconfig: &Path) -> Result<Vec<Finding>> {
    let cluster = Cluster::from_kubeconfig(kubeconfig);
    let store = &mut *cluster.open()?;
    let mut all = Vec::new();
    for (name, definition) in until_answered(store, |store| store.pools())? {
        let path = store.path_of_pool(&name);
        let instead = "a pool as docs/configuration.md has it";
        let read = definition.map_err(cni::Error::from);
        let wrong = read.and_then(|read| Pool::read(&path, read)).err();
        all.extend(wrong.map(|error| Finding::of_file(kubeconfig, error.msg, instead)));
    }
    Ok(all)
}

/// Lets the conflists that read the catalogue `old` read `new`; true if there are some.
fn redirect(conflists: &mut [Conflist], old: &Path, new: &Path) -> Result<bool> {
    let mut is_read = false;
    for plugin in conflists.iter_mut().flat_map(|list| &mut list.plugins) {
        let Some(ipam) = &plugin.ipam else { continue };
        let named: Option<PathBuf> = ipam.read("ipam", "poolsDir").unwrap_or_default();
        if named.is_some_and(|named| named == old) {
            is_read = true;
            plugin.request = with_keys(&plugin.request, |_, ipam| ipam.set("poolsDir", new))?;
        }
    }
    Ok(is_read)
}

/// The finding in a catalogue that no conflist reads.
fn unread(old: &Path, new: &Path) -> Option<Finding> {
    let config = json!({"cniVersion": "1.0.0", "name": "n", "ipam": {"poolsDir": new}});
    let config = NetworkConfig::parse(config.to_string().into_bytes());
    let why = config.and_then(|config| pools(&config)).err()?.msg;
    let instead = "pools and rules as docs/configuration.md has them";
    Some(Finding::of_file(old, why, instead))
}

/// Adds a file. A new file replaces the installed one of its network.
fn add(file: &Path, found: &mut Listing) {
    let before = found.conflists.len() + found.problems.len();
    let path = real(file);
    found.conflists.retain(|other| real(&other.file) != path);
    found.problems.retain(|other| real(&other.path) != path);
    let is_new = found.conflists.len() + found.problems.len() == before;
    let mut only = Listing::default();
    only.add(file);
    if is_new && let Some(new) = only.conflists.first() {
        found.conflists.retain(|other| other.name != new.name);
    }
    found.conflists.extend(only.conflists);
    found.problems.extend(only.problems);
}

fn lines(all: &[Finding]) -> Vec<String> {
    let mut lines = Vec::new();
    let files: BTreeSet<&Path> = all.iter().map(|finding| finding.file.as_path()).collect();
    for file in files {
        lines.push(file.display().to_string());
        for finding in all.iter().filter(|finding| finding.file == file) {
            let severity = match finding.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
            };
            let Finding { key, problem, .. } = finding;
            let key = Some(key).filter(|key| !problem.starts_with(*key));
            let key = key.map_or_else(String::new, |key| format!("{key}: "));
            lines.push(format!("  {severity}: {key}{problem}"));
            lines.push(format!("    instead: {}", finding.instead));
        }
    }
    lines
}

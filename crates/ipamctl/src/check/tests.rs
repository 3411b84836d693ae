//! Checks conflists of other projects: none crashes the checks, and the sane ones have no
//! finding. `testdata/conflists/SOURCES.md` lists them.

use std::fs;
use std::path::{Path, PathBuf};

use cni::Environment;
use conflist::Listing;

use crate::check::findings;
use crate::check::findings::Finding;
use crate::inventory::Inventory;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/conflists")
}

/// The rows of the list: file, and the keys of its findings.
fn listed() -> Vec<(String, String)> {
    let list = fs::read_to_string(folder().join("SOURCES.md")).unwrap();
    let rows = list.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        (cells[1].trim_matches('`').to_owned(), cells[4].to_owned())
    })
    .collect()
}

/// The keys of the findings of one file, each once.
fn found(file: &Path) -> String {
    let mut read = Listing::default();
    read.add(file);
    let mut all: Vec<_> = read.problems.iter().map(Finding::unusable).collect();
    let environment = Environment::default().with("CNI_PATH", "/nowhere");
    all.extend(findings(
        &read.conflists,
        &Inventory::default(),
        true,
        &environment,
    ));
    // Of this machine.
    let of_machine = ["no such plugin", "is not writable", "a reboot empties"];
    all.retain(|finding| !of_machine.iter().any(|part| finding.problem.contains(part)));
    let mut keys: Vec<String> = all
        .iter()
        .map(|finding| match finding.key.as_str() {
            "" => format!("unusable: {}", finding.problem),
            key => key.to_owned(),
        })
        .collect();
    keys.dedup();
    keys.join(", ")
}

#[test]
fn the_conflists_of_other_projects_have_the_findings_that_are_listed() {
    let listed = listed();
    assert!(listed.len() >= 100, "{}", listed.len());
    let files = fs::read_dir(folder()).unwrap().count();
    assert_eq!(files, listed.len() + 1, "a file is not listed");
    let mut wrong = Vec::new();
    for (file, expected) in &listed {
        let keys = found(&folder().join(file));
        if keys != *expected {
            wrong.push(format!("{file}: {keys}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let sane = listed.iter().filter(|(_, keys)| keys.is_empty()).count();
    assert!(sane * 10 >= listed.len() * 8, "{sane}");
}

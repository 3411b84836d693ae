//! `ipamctl` on a node with Docker's networks: their pools, and the commands of docs/operations.md
//! when one of them has no address left.

use std::fs;
use std::path::Path;

use harness::{make_old, replay};
use serde_json::Value;

use crate::calls::{pool_of, started, started_with};

#[test]
fn the_pools_of_docker_are_shown_with_the_range_that_addresses_are_given_from() {
    let (sandbox, daemon) = started();
    for (subnet, range) in [
        ("10.1.0.0/24", ""),
        ("10.2.0.0/16", "10.2.5.0/24"),
        ("10.3.0.0/24", "10.3.0.128/25"),
    ] {
        daemon.address(&pool_of(&daemon, subnet, range), "");
    }
    let output = sandbox.ipamctl(&["pools", "--json"]).run();
    let pools: Vec<Value> = serde_json::from_str(&output.stdout).unwrap();
    let mut ranges: Vec<&str> = pools
        .iter()
        .map(|pool| pool["ranges"].as_str().unwrap())
        .collect();
    ranges.sort_unstable();
    let expected = [
        "10.1.0.1-10.1.0.254",
        "10.2.5.0-10.2.5.255",
        "10.3.0.128-10.3.0.254",
    ];
    assert_eq!(ranges, expected);
}

/// Replaces a text in the name and in the content of a file, and makes it old.
fn rewrite(file: &Path, from: &str, to: &str) {
    let content = fs::read_to_string(file).unwrap().replace(from, to);
    let name = file.file_name().unwrap().to_str().unwrap();
    fs::remove_file(file).unwrap();
    let renamed = file.with_file_name(name.replace(from, to));
    fs::write(&renamed, content).unwrap();
    make_old(&renamed, 50);
}

#[test]
fn a_full_pool_of_docker_is_walked_to_its_leaks() {
    let (sandbox, daemon, pool) = started_with("10.88.0.0/29");
    for ip in 1..=6 {
        assert_eq!(daemon.address(&pool, ""), format!("10.88.0.{ip}"));
    }
    daemon.kill();
    // The part of the IDs that is new at each start.
    let files = sandbox.docker_files("addresses");
    let name = files[0].file_name().unwrap().to_str().unwrap();
    let (start, _) = name.rsplit_once('-').unwrap();
    for file in &files {
        let content = fs::read_to_string(file).unwrap();
        if content.contains("10.88.0.5/29") {
            fs::remove_file(file).unwrap();
            continue;
        }
        // It was killed while it released this one.
        if content.contains("10.88.0.3/29") {
            let line = "{\"deleting\":{\"at\":\"2026-11-24T12:00:00Z\"}}\n";
            fs::write(file, content + line).unwrap();
        }
        rewrite(file, start, "docker-3f51f5854bbee2a8");
    }
    for ip in sandbox.reserved("docker") {
        let file = sandbox.data_dir().join("docker").join(ip);
        rewrite(&file, start, "docker-3f51f5854bbee2a8");
    }
    let (page, section) = ("docs/operations.md", "### Of Docker");
    assert_eq!(replay(page, section, &sandbox, "", |_| {}), 3);
    assert_eq!(sandbox.reserved("docker").len(), 5);
}

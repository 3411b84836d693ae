//! `ipam-ds-etcd` in a chain of the one file: its executable is started only for what the
//! node's file doesn't answer, and the answers are the same.

use std::fs;
use std::path::{Path, PathBuf};

use harness::{ETCD, ETCDCTL, EtcdMember, Flavour, Form, Output, needs};
use serde_json::{Value, json};

use super::Cluster;
use super::blocks::{CHAIN, named, with_pool};

const STRACE: &str = "/usr/bin/strace";

const SELECTOR: &str = "ipam-ds-etcd";

fn cluster(flavour: Flavour) -> Cluster {
    let etcd = EtcdMember::default();
    with_pool(Cluster::in_form(flavour, Form::OneFile, etcd))
}

/// The file of what the node holds.
fn node_file(it: &Cluster) -> PathBuf {
    it.sandbox.root().join("n1/etcd-state/blocks/blue.json")
}

/// A call, and true if it has started the selector's executable.
fn call(it: &Cluster, command: &str, container: &str, config: &Value) -> (Output, bool) {
    let trace = it.sandbox.root().join("trace");
    let through = [STRACE, "-qq", "-f", "-s", "999", "-e", "trace=execve", "-o"];
    let words = [&through[..], &[trace.to_str().unwrap()]].concat();
    let call = it.call(command, container, config).through(&words);
    let output = call.run();
    let trace = fs::read_to_string(trace).unwrap();
    let name = format!("/{SELECTOR}\"");
    let is_of_it = |line: &str| line.contains(&name) && line.ends_with("= 0");
    (output, trace.lines().any(is_of_it))
}

fn add(it: &Cluster, container: &str, config: &Value) -> bool {
    let (output, is_started) = call(it, "ADD", container, config);
    output.result();
    is_started
}

fn del(it: &Cluster, container: &str, config: &Value) -> bool {
    let (output, is_started) = call(it, "DEL", container, config);
    output.nothing();
    is_started
}

#[test]
fn only_a_claim_starts_the_executable() {
    needs!(ETCD, ETCDCTL, STRACE);
    let mut it = cluster(Flavour::Normal);
    let config = it.config("n1", &CHAIN, &named());
    assert!(add(&it, "a", &config), "the first ADD claims a block");
    it.etcd.kill();
    for container in ["b", "c", "d"] {
        assert!(!add(&it, container, &config), "{container}");
    }
    let (full, is_started) = call(&it, "ADD", "e", &config);
    assert_eq!(
        (full.error()["code"].as_u64(), is_started),
        (Some(11), true)
    );
    assert!(!del(&it, "b", &config));
    // It has failed to claim a block just now, and so isn't started for a further one.
    assert!(!add(&it, "f", &config));
    it.etcd.restart();
    assert!(call(&it, "GC", "", &config).1);
    assert!(call(&it, "STATUS", "", &config).1);
}

#[test]
fn check_takes_the_nodes_file() {
    needs!(ETCD, ETCDCTL, STRACE);
    let mut it = cluster(Flavour::Normal);
    let mut config = it.config("n1", &CHAIN, &named());
    let result = it.add("a", &config).result();
    it.etcd.kill();
    config["prevResult"] = result;
    let (output, is_started) = call(&it, "CHECK", "a", &config);
    output.nothing();
    assert!(!is_started);
}

#[test]
fn a_file_that_was_not_installed_beside_the_one_executable_is_executed() {
    needs!(ETCD, ETCDCTL, STRACE);
    let it = cluster(Flavour::Normal);
    let config = it.config("n1", &CHAIN, &named());
    it.add("a", &config).result();
    assert!(!add(&it, "b", &config));
    for always in [json!({"execute": "always"}), json!({"delegateTimeout": 60})] {
        let mut config = config.clone();
        let keys = always.as_object().unwrap().clone();
        config["ipam"].as_object_mut().unwrap().extend(keys);
        assert!(add(&it, "c", &config), "{always}");
        assert!(del(&it, "c", &config), "{always}");
    }
    let path = it.sandbox.plugins().join(SELECTOR);
    let installed = fs::canonicalize(&path).unwrap();
    fs::remove_file(&path).unwrap();
    fs::copy(installed, &path).unwrap();
    assert!(add(&it, "d", &config));
    // Another project's is asked, too.
    let refusal =
        "echo '{\"cniVersion\": \"1.0.0\", \"code\": 142, \"msg\": \"of a script\"}'; exit 1";
    let script = format!("#!/bin/sh\n{refusal}\n");
    it.sandbox.write_executable(SELECTOR, &script);
    let error = it.add("e", &config).error();
    assert_eq!(error["code"], 142, "{error}");
}

/// A change of a configuration.
type Change<'a> = &'a dyn Fn(&mut Value);

#[test]
fn whatever_is_the_matter_the_executable_reports_it() {
    needs!(ETCD, ETCDCTL, STRACE);
    let it = cluster(Flavour::Normal);
    let config = it.config("n1", &CHAIN, &named());
    it.add("a", &config).result();
    let content = fs::read(node_file(&it)).unwrap();
    let cases: [(Change<'_>, &[u8], &str); 4] = [
        (&|_| (), b"{", "it is no list of blocks"),
        (
            &|config| config["ipam"]["node"] = json!("n2"),
            &content,
            "has blocks of node \"n1\"",
        ),
        (
            &|config| config["ipam"]["etcd"]["endpoints"] = json!(["x"]),
            &content,
            "ipam.etcd.endpoints[0]: \"x\" is no http or https URL",
        ),
        (
            &|config| config["ipam"]["pools"] = json!([]),
            &content,
            "prevResult.pools is missing or empty",
        ),
    ];
    for (change, content, message) in cases {
        fs::write(node_file(&it), content).unwrap();
        let mut config = config.clone();
        change(&mut config);
        let (output, is_started) = call(&it, "ADD", "b", &config);
        let error = output.error();
        assert!(error["msg"].as_str().unwrap().contains(message), "{error}");
        assert!(is_started, "{message}");
        // DEL does what it can.
        let (_, is_started) = call(&it, "DEL", "b", &config);
        assert_eq!(is_started, !message.contains("missing"), "{message}");
    }
}

#[test]
fn answers_and_logs_are_those_of_the_executable() {
    needs!(ETCD, ETCDCTL);
    let it = cluster(Flavour::Verbose);
    let config = it.config("n1", &CHAIN, &named());
    it.add("a", &config).result();
    // Its own answer is the chain's.
    let mut called = it.config("n1", &CHAIN[..1], &named());
    called["ipam"]["pools"][0]["sticky"] = json!("s");
    called["ipam"]["pools"][0]["exclude"] = json!(["10.0.0.18"]);
    let mut executed = called.clone();
    executed["ipam"]["execute"] = json!("always");
    let log = it.sandbox.log_dir().join(format!("{SELECTOR}.log"));
    let answers = [called, executed].map(|mut config| {
        let _ = fs::remove_file(&log);
        let add = it.add("b", &config);
        config["prevResult"] = add.result();
        let check = it.call("CHECK", "b", &config).run();
        let del = it.del("b", &config);
        let answers = [add, check, del].map(|it| (it.status.code(), it.stdout, it.stderr));
        (answers, lines(&log))
    });
    assert_eq!(answers[0], answers[1]);
    let lines = &answers[0].1;
    assert_eq!(lines.len(), 9, "{lines:#?}");
}

/// The lines of a log, without times, traces and PIDs.
fn lines(log: &Path) -> Vec<String> {
    let log = fs::read_to_string(log).unwrap();
    let without = |line: &str| {
        let words = line.split(' ').skip(1);
        let is_alike = |it: &&str| !it.starts_with("trace=") && !it.starts_with("pid=");
        words.filter(is_alike).collect::<Vec<_>>().join(" ")
    };
    log.lines().map(without).collect()
}

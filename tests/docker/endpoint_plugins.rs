//! A network's plugins that take long, fail, or outlive the daemon while they create or delete an
//! endpoint.

use std::fs;
use std::thread;

use harness::{DockerDaemon, Sandbox, needs};
use serde_json::json;

use crate::endpoints::{assert_nothing_left, call, call_of, node, refused};
use harness::cni_network::{configure_plugins, left};
use harness::waiting::{wait_for, wait_until_equal};

/// The network configuration `web` with a script as its only plugin.
fn script(sandbox: &Sandbox, script: &str) {
    sandbox.write_executable(
        "scripted",
        &format!("#!/bin/sh\ncd {}\n{script}", sandbox.root().display()),
    );
    configure_plugins(sandbox, "web", &[json!({"type": "scripted"})]);
}

const ANSWER: &str = r#"echo '{"cniVersion": "1.0.0", "ips": [{"address": "10.95.0.7/24"}]}'"#;

#[test]
fn a_plugin_that_goes_on_after_a_kill_of_the_daemon_is_undone_behind_its_end() {
    needs!("root", "/sbin/ip");
    let (node, sandbox) = node();
    // It creates its interface a second after the daemon was killed.
    let add = format!(
        "touch began; while [ ! -e killed ]; do sleep 0.01; done; sleep 1; touch made over; {ANSWER}"
    );
    let del = "rm -f made";
    script(
        &sandbox,
        &format!("if [ $CNI_COMMAND = ADD ]; then {add}; else {del}; fi"),
    );
    let file = |name: &str| sandbox.root().join(name);
    let daemon = DockerDaemon::start_on(&node, &sandbox, &[]);
    call(&daemon, "CreateNetwork");
    let (path, body) = call_of("CreateEndpoint");
    thread::scope(|scope| {
        scope.spawn(|| assert!(daemon.try_call(&path, &body).is_err()));
        wait_for(|| file("began").exists());
        node.sh(&format!("kill -9 {}", daemon.id()));
    });
    daemon.kill();
    fs::write(file("killed"), "").unwrap();
    let daemon = DockerDaemon::start_on(&node, &sandbox, &[]);
    wait_for(|| file("over").exists());
    // The undo is repeated after some seconds.
    wait_for(|| sandbox.docker_files("endpoints").is_empty());
    assert!(!file("made").exists());
    assert_nothing_left(&node, &sandbox, "");
    // While a plugin runs, its endpoint is kept.
    script(
        &sandbox,
        "if [ $CNI_COMMAND = ADD ]; then touch hangs; while [ ! -e end ]; do sleep 0.01; done; fi",
    );
    thread::scope(|scope| {
        scope.spawn(|| assert!(daemon.try_call(&path, &body).is_err()));
        wait_for(|| file("hangs").exists());
        node.sh(&format!("kill -9 {}", daemon.id()));
    });
    daemon.kill();
    let daemon = DockerDaemon::start_on(&node, &sandbox, &[]);
    assert_eq!(left(&node).len(), 1, "{:?}", left(&node));
    daemon.kill();
    fs::write(file("end"), "").unwrap();
    let daemon = DockerDaemon::start_on(&node, &sandbox, &[]);
    wait_for(|| sandbox.docker_files("endpoints").is_empty());
    assert_nothing_left(&node, &sandbox, "");
    call(&daemon, "DeleteNetwork");
}

#[test]
fn a_second_deletion_waits_for_the_first_and_a_failed_one_is_made_up_for() {
    needs!("root", "/sbin/ip");
    let (node, sandbox) = node();
    let del = "echo >>deletions; while [ -e wait ]; do sleep 0.01; done; [ ! -e fail ]";
    script(
        &sandbox,
        &format!("if [ $CNI_COMMAND = ADD ]; then {ANSWER}; else {del}; fi"),
    );
    let file = |name: &str| sandbox.root().join(name);
    let deletions = || fs::read(file("deletions")).map_or(0, |content| content.len());
    let daemon = DockerDaemon::start_on(&node, &sandbox, &[]);
    for name in ["CreateNetwork", "CreateEndpoint"] {
        call(&daemon, name);
    }
    fs::write(file("wait"), "").unwrap();
    thread::scope(|scope| {
        let first = scope.spawn(|| call(&daemon, "DeleteEndpoint"));
        wait_until_equal(deletions, 1);
        let second = scope.spawn(|| call(&daemon, "DeleteEndpoint"));
        thread::sleep(std::time::Duration::from_millis(100));
        assert!(!second.is_finished());
        fs::remove_file(file("wait")).unwrap();
        first.join().unwrap();
        second.join().unwrap();
    });
    assert_eq!(deletions(), 1);
    assert_nothing_left(&node, &sandbox, "");
    // Docker forgets the endpoint even after a failure.
    call(&daemon, "CreateEndpoint");
    fs::write(file("fail"), "").unwrap();
    let said = refused(&daemon, "DeleteEndpoint");
    assert!(said.starts_with("scripted: failed"), "{said}");
    assert_eq!(left(&node).len(), 1);
    fs::remove_file(file("fail")).unwrap();
    wait_for(|| sandbox.docker_files("endpoints").is_empty());
    assert_nothing_left(&node, &sandbox, "");
}

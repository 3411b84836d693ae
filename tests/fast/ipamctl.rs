//! `ipamctl` with directories and records that the plugins and host-local have written.

mod check;
mod check_lists;
mod check_moved;
mod collection;
mod faults;
mod large;
mod listing;
mod manual;
mod release;
mod remedies;
mod run_out;
mod several_holders;
mod under_fire;
mod unknown;

use std::process::Command;

use harness::{Output, Sandbox};
use serde_json::{Value, json};

/// A container ID like a runtime's, with these first digits.
fn id(start: &str) -> String {
    format!("{start:0<64}")
}

/// The delegates of most networks.
const OURS: [&str; 2] = ["ipam-ds-ranges", "ipam-da-host-local"];

/// The network of these tests, with a conflist.
fn network(sandbox: &Sandbox) -> Value {
    let ranges = json!({"ranges": [[{"subnet": "10.77.0.0/24", "exclude": ["10.77.0.64/28"]}]]});
    let config = sandbox.config("1.0.0", &OURS, &ranges);
    sandbox.write_conflist("10-testnet.conflist", &config);
    config
}

/// A sandbox with the network of these tests, and its configuration. Containers with these first
/// digits of their IDs are added, with these namespaces.
#[track_caller]
fn with(containers: &[(&str, &str)]) -> (Sandbox, Value) {
    let sandbox = Sandbox::default();
    let config = network(&sandbox);
    for (start, netns) in containers {
        add(&sandbox, &config, &id(start), netns);
    }
    (sandbox, config)
}

/// Adds a container with this namespace; [`GONE`] ends after the ADD.
#[track_caller]
fn add(sandbox: &Sandbox, config: &Value, container: &str, netns: &str) {
    let args = "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-1";
    let add = sandbox.call("ipam-delegated", "ADD", config);
    let call = add.container(container).env("CNI_ARGS", args);
    if netns != GONE {
        call.env("CNI_NETNS", netns).run().result();
        return;
    }
    let mut process = Command::new("sleep").arg("600").spawn().unwrap();
    let netns = format!("/proc/{}/ns/net", process.id());
    let output = call.env("CNI_NETNS", netns).run();
    process.kill().unwrap();
    process.wait().unwrap();
    output.result();
}

/// Runs `ipamctl` with `--json`; returns what it prints.
#[track_caller]
fn json_of(sandbox: &Sandbox, words: &[&str]) -> Value {
    let output = sandbox.ipamctl(words).args(["--json"]).run();
    serde_json::from_str(&output.stdout).unwrap_or_else(|e| panic!("{words:?}: {e}\n{output:?}"))
}

/// Runs `gc` or `leaks` with this list of valid containers, which may be of any age.
fn with_list(sandbox: &Sandbox, command: &str, list: &str) -> Output {
    let words = [command, "--older-than", "0s", "--yes", "--valid", "-"];
    sandbox.ipamctl(&words).stdin(list).run()
}

/// An existing namespace, which isn't the host's own network namespace.
const THERE: &str = "/proc/self/ns/uts";

/// The host's own network namespace, which proves nothing.
const HOSTS: &str = "/proc/self/ns/net";

/// A namespace of a process that has ended.
const GONE: &str = "gone";

//! The trace ID finds the log lines of one attachment in all plugins' logs.

use std::fs;

use harness::{Flavour, Sandbox};
use serde_json::{Value, json};

fn sandbox() -> (Sandbox, Value) {
    let sandbox = Sandbox::new(Flavour::Verbose).with_script(
        "third-party",
        "echo \"$TRACEPARENT\" >> ${0%/*}/../traceparents; echo '{\"ips\":[]}'",
    );
    let ipam = json!({"ranges": [[{"subnet": "10.1.0.0/24"}]]});
    let delegates = ["third-party", "ipam-ds-ranges", "ipam-da-host-local"];
    let config = sandbox.config("1.0.0", &delegates, &ipam);
    (sandbox, config)
}

/// The lines that `grep ID *.log` finds, in order of time, without the ID.
fn grep(sandbox: &Sandbox, id: &str) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    for entry in fs::read_dir(sandbox.log_dir()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let plugin = name.split('.').next().unwrap().to_owned();
        for line in fs::read_to_string(path).unwrap().lines() {
            if line.contains(id) {
                lines.push((line.to_owned(), plugin.clone()));
            }
        }
    }
    lines.sort();
    lines
        .into_iter()
        .map(|(line, plugin)| (plugin, line))
        .collect()
}

#[track_caller]
fn is_the_whole_story(lines: &[(String, String)]) {
    let told: Vec<&str> = [
        "starting",
        "called",
        "running the delegate",
        "the delegate has succeeded",
        "reserved",
        "succeeded",
    ]
    .into_iter()
    .filter(|what| lines.iter().any(|(_, line)| line.contains(what)))
    .collect();
    assert_eq!(told.len(), 6, "{told:?}");
    // The plugins appear in the order of their calls.
    let mut plugins: Vec<&str> = lines.iter().map(|(plugin, _)| plugin.as_str()).collect();
    plugins.dedup();
    assert_eq!(
        plugins,
        [
            "ipam-delegated",
            "ipam-ds-ranges",
            "ipam-delegated",
            "ipam-da-host-local",
            "ipam-delegated"
        ]
    );
}

fn traceparents(sandbox: &Sandbox) -> Vec<String> {
    let text = fs::read_to_string(sandbox.root().join("traceparents")).unwrap();
    text.lines().map(Into::into).collect()
}

#[test]
fn the_runtimes_trace_or_a_new_one_goes_through_to_delegates_and_logs() {
    let (sandbox, config) = sandbox();
    let id = "4bf92f3577b34da6a3ce929d0e0e4736";
    let traceparent = format!("00-{id}-00f067aa0ba902b7-01");
    let call = sandbox.call("ipam-delegated", "ADD", &config);
    call.env("TRACEPARENT", &traceparent).run().result();
    // For an unrelated call, whose trace is no trace, another one is made.
    let other = sandbox.chain_call("ADD", "c2", &config);
    other.env("TRACEPARENT", "nonsense").run().result();
    let traceparents = traceparents(&sandbox);
    assert_eq!(traceparents[0], traceparent);
    for (traceparent, container) in traceparents.iter().zip(["c1", "c2"]) {
        let id = traceparent.split('-').nth(1).unwrap();
        assert_eq!(id.len(), 32);
        let lines = grep(&sandbox, id);
        is_the_whole_story(&lines);
        let other = format!("container={}", if container == "c1" { "c2" } else { "c1" });
        assert!(lines.iter().all(|(_, line)| !line.contains(&other)));
    }
}

#[test]
fn a_del_says_which_trace_added_what_it_undoes() {
    let (sandbox, config) = sandbox();
    let trace = |byte: &str| format!("00-{}-00f067aa0ba902b7-01", byte.repeat(16));
    let add = sandbox.call("ipam-delegated", "ADD", &config);
    add.env("TRACEPARENT", trace("aa")).run().result();
    let del = sandbox.call("ipam-delegated", "DEL", &config);
    del.env("TRACEPARENT", trace("bb")).run().nothing();
    let lines = grep(&sandbox, &"aa".repeat(16));
    assert!(
        lines
            .iter()
            .any(|(_, line)| line.contains(&"bb".repeat(16))),
        "{lines:#?}"
    );
}

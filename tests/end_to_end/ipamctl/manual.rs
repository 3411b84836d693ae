//! Compares the outputs in `docs/ipamctl.md` with those of the commands.
//!
//! With `IPAM_DELEGATED_WRITE_DOCS=1`, the test writes them instead.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use harness::{Sandbox, repository};
use serde_json::json;

use crate::documents::document;

const MANUAL: &str = "docs/ipamctl.md";

/// The containers: ID, pod, namespace, age in hours.
const CONTAINERS: [(&str, &str, &str, u64); 3] = [
    (
        "8f3e52c1a0b9d7e6f5c4b3a2918070605f4e3d2c1b0a99887766554433221100",
        "web-1",
        super::THERE,
        3,
    ),
    (
        "1c9d04e7b2a6f8835e7d6c5b4a39281706f5e4d3c2b1a0998877665544332211",
        "web-2",
        super::THERE,
        1,
    ),
    (
        "d47a90f3e5c1b28617f6e5d4c3b2a190817263544536271809fafbfcfdfeff00",
        "db-0",
        "/run/cni-5d21",
        50,
    ),
];

/// The node that the manual shows.
fn node() -> Sandbox {
    let answers = r#"echo '{"cniVersion":"1.1.0","supportedVersions":["0.4.0","1.0.0","1.1.0"]}'"#;
    let sandbox = Sandbox::default().with_script("bridge", answers);
    let file = sandbox.data_dir().join("old/10.78.0.2");
    let del = format!("[ $CNI_COMMAND != DEL ] || exec rm {}", file.display());
    let sandbox = sandbox.with_script("host-local", &format!("{del}\n{answers}"));
    let ranges = json!({"ranges": [
        [{"subnet": "10.77.0.0/24", "exclude": ["10.77.0.64/28"]}],
        [{"subnet": "fd00:77::/64"}],
    ]});
    let delegates = ["ipam-ds-ranges", "ipam-da-host-local"];
    let mut config = sandbox.config("1.0.0", &delegates, &ranges);
    config["name"] = json!("mynet");
    sandbox.write_conflist("10-mynet.conflist", &config);
    for (container, pod, netns, hours) in CONTAINERS {
        let args = format!("IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME={pod}");
        let call = sandbox
            .call("ipam-delegated", "ADD", &config)
            .container(container);
        call.env("CNI_NETNS", netns)
            .env("CNI_ARGS", args)
            .env(
                "TRACEPARENT",
                "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            )
            .run()
            .result();
        make_old(&sandbox, container, hours);
    }
    let old = sandbox.data_dir().join("old");
    fs::create_dir(&old).unwrap();
    fs::write(old.join("10.78.0.2"), "6b0c9d8e7f605142\r\neth0").unwrap();
    set_age(&old.join("10.78.0.2"), 400);
    let ipam =
        json!({"type": "host-local", "dataDir": sandbox.data_dir(), "subnet": "10.78.0.0/24"});
    let old = json!({"cniVersion": "1.0.0", "name": "old", "type": "bridge", "ipam": ipam});
    sandbox.write_conflist("15-old.conflist", &old);
    sandbox
}

/// Makes an attachment this many hours old: in its record, and by the times of its files.
fn make_old(sandbox: &Sandbox, container: &str, hours: u64) {
    let record = sandbox
        .state_dir()
        .join("mynet")
        .join(format!("{container}:eth0.json"));
    let content = fs::read_to_string(&record).unwrap();
    let (before, rest) = content.split_once("\"id\":\"").unwrap();
    let (id, after) = rest.split_once('"').unwrap();
    let [pid, _, number] = id.split('-').collect::<Vec<_>>()[..] else {
        panic!("{id}");
    };
    let then = ago(hours).duration_since(UNIX_EPOCH).unwrap().as_nanos();
    fs::write(
        &record,
        format!("{before}\"id\":\"{pid}-{then}-{number}\"{after}"),
    )
    .unwrap();
    set_age(&record, hours);
    for (ip, content) in sandbox.reservations("mynet") {
        if content.starts_with(container) {
            set_age(&sandbox.data_dir().join("mynet").join(ip), hours);
        }
    }
}

fn ago(hours: u64) -> SystemTime {
    SystemTime::now() - Duration::from_secs(hours * 3_600 + 60)
}

fn set_age(path: &Path, hours: u64) {
    let file = fs::File::options().append(true).open(path).unwrap();
    file.set_modified(ago(hours)).unwrap();
}

/// The output of a command of the manual on this node, with the manual's paths.
fn output(sandbox: &Sandbox, command: &str) -> String {
    let places = [
        (sandbox.conf_dir(), "/etc/cni/net.d"),
        (sandbox.data_dir(), "/var/lib/cni/networks"),
        (sandbox.state_dir(), "/var/lib/cni/ipam-delegated"),
        (sandbox.plugins(), "/opt/cni/bin"),
    ];
    let words = command.rsplit("ipamctl ").next().unwrap();
    let words = places
        .iter()
        .fold(words.to_owned(), |words, (real, written)| {
            words.replace(written, real.to_str().unwrap())
        });
    let words: Vec<&str> = words.split(' ').collect();
    let valid: Vec<&str> = CONTAINERS[..2]
        .iter()
        .map(|container| container.0)
        .collect();
    let ran = sandbox.ipamctl(&words).stdin(valid.join("\n")).run();
    // A printed command has this node's options, which the manual omits.
    let options = sandbox.ipamctl_line().into_iter().skip(1);
    let options: String = options
        .map(|option| format!("{} ", option.display()))
        .collect();
    let printed = ran.stdout.replace(&options, "");
    places.iter().fold(printed, |text, (real, written)| {
        text.replace(real.to_str().unwrap(), written)
    })
}

#[test]
fn every_output_in_the_manual_is_what_the_command_prints() {
    let sandbox = node();
    let manual = document(MANUAL);
    let mut made = String::new();
    let mut lines = manual.lines();
    let mut commands = 0;
    while let Some(line) = lines.next() {
        made += &format!("{line}\n");
        if line != "```console" {
            continue;
        }
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        for command in block.iter().filter_map(|line| line.strip_prefix("$ ")) {
            if command.contains("20-wrong") {
                write_wrong(&sandbox);
            }
            if command.contains(" release ") {
                add_again(&sandbox);
            }
            made += &format!("$ {command}\n{}", output(&sandbox, command));
            commands += 1;
        }
        made += "```\n";
    }
    if std::env::var_os("IPAM_DELEGATED_WRITE_DOCS").is_some() {
        fs::write(repository().join(MANUAL), &made).unwrap();
        return;
    }
    assert_eq!(made, manual);
    assert!(commands >= 9, "{commands}");
}

/// A conflist with three faults.
fn write_wrong(sandbox: &Sandbox) {
    let ranges = json!({"ranges": [[{"subnet": "10.77.0.128/25"}, {"subnet": "10.79.0.0/24"}]]});
    let delegates = ["ipam-ds-ranges", "ipam-da-host-locl"];
    let mut config = sandbox.config("1.0.0", &delegates, &ranges);
    config["name"] = json!("wrong");
    config["isGateway"] = json!(true);
    sandbox.write_conflist("20-wrong.conflist", &config);
}

/// Gives the last container an address again, after gc has released it.
fn add_again(sandbox: &Sandbox) {
    let conflist = fs::read(sandbox.conf_dir().join("10-mynet.conflist")).unwrap();
    let conflist: serde_json::Value = serde_json::from_slice(&conflist).unwrap();
    let mut config = conflist["plugins"][0].clone();
    config["cniVersion"] = json!("1.0.0");
    config["name"] = json!("mynet");
    fs::write(
        sandbox.data_dir().join("mynet/last_reserved_ip.0"),
        "10.77.0.3",
    )
    .unwrap();
    fs::write(
        sandbox.data_dir().join("mynet/last_reserved_ip.1"),
        "fd00:77::3",
    )
    .unwrap();
    let call = sandbox.call("ipam-delegated", "ADD", &config);
    call.container(CONTAINERS[2].0).run().result();
}

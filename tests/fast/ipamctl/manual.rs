//! Compares the outputs in `docs/ipamctl.md` with those of the commands.
//!
//! With `IPAM_DELEGATED_WRITE_DOCS=1`, the test writes them instead.

use std::fs;
use std::os::unix::fs::symlink;

use harness::{RANGES_CHAIN, Sandbox, make_old, replay};
use serde_json::json;

/// Name of a namespace that ends after the ADD.
const GONE: &str = "cni-5d21";

/// The containers: ID, pod, name of the namespace, age in hours.
const CONTAINERS: [(&str, &str, &str, u64); 3] = [
    (
        "8f3e52c1a0b9d7e6f5c4b3a2918070605f4e3d2c1b0a99887766554433221100",
        "web-1",
        "cni-8f3e",
        3,
    ),
    (
        "1c9d04e7b2a6f8835e7d6c5b4a39281706f5e4d3c2b1a0998877665544332211",
        "web-2",
        "cni-1c9d",
        1,
    ),
    (
        "d47a90f3e5c1b28617f6e5d4c3b2a190817263544536271809fafbfcfdfeff00",
        "db-0",
        GONE,
        50,
    ),
];

/// The node that the manual shows.
fn node() -> Sandbox {
    let answers = r#"echo '{"cniVersion":"1.1.0","supportedVersions":["0.4.0","1.0.0","1.1.0"]}'"#;
    let sandbox = Sandbox::default().with_script("bridge", answers);
    let file = sandbox.data_dir().join("old/10.78.0.2");
    let del = format!("[ $CNI_COMMAND != DEL ] || exec rm {}", file.display());
    let script = format!("#!/bin/sh\n{del}\n{answers}\n");
    sandbox.write_executable("host-local", &script);
    let ranges = json!({"ranges": [[{"subnet": "10.77.0.0/26", "exclude": ["10.77.0.32/29"]}]]});
    let mut config = sandbox.config("1.0.0", &RANGES_CHAIN, &ranges);
    config["name"] = json!("mynet");
    sandbox.write_conflist("10-mynet.conflist", &config);
    let namespaces = sandbox.root().join("netns");
    fs::create_dir(&namespaces).unwrap();
    let ending = namespaces.join(GONE);
    fs::write(&ending, "").unwrap();
    for (container, pod, netns, hours) in CONTAINERS {
        let path = namespaces.join(netns);
        if netns != GONE {
            symlink(super::THERE, &path).unwrap();
        }
        let args = format!("IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME={pod}");
        let call = sandbox
            .call("ipam-delegated", "ADD", &config)
            .container(container);
        call.env("CNI_NETNS", path)
            .env("CNI_ARGS", args)
            .env(
                "TRACEPARENT",
                "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            )
            .run()
            .result();
        make_all_old(&sandbox, container, hours);
    }
    fs::remove_file(&ending).unwrap();
    let old = sandbox.data_dir().join("old");
    fs::create_dir(&old).unwrap();
    fs::write(old.join("10.78.0.2"), "6b0c9d8e7f605142\r\neth0").unwrap();
    make_old(&old.join("10.78.0.2"), 400);
    let ipam =
        json!({"type": "host-local", "dataDir": sandbox.data_dir(), "subnet": "10.78.0.0/24"});
    let old = json!({"cniVersion": "1.0.0", "name": "old", "type": "bridge", "ipam": ipam});
    sandbox.write_conflist("15-old.conflist", &old);
    sandbox
}

/// Makes an attachment of `mynet` this many hours old.
fn make_all_old(sandbox: &Sandbox, container: &str, hours: u64) {
    let record = format!("mynet/{container}:eth0.json");
    make_old(&sandbox.state_dir().join(record), hours);
    for (ip, content) in sandbox.reservations("mynet") {
        if content.starts_with(container) {
            make_old(&sandbox.data_dir().join("mynet").join(ip), hours);
        }
    }
}

#[test]
fn every_output_in_the_manual_is_what_the_command_prints() {
    let sandbox = node();
    let valid: Vec<&str> = CONTAINERS[..2]
        .iter()
        .map(|container| container.0)
        .collect();
    let (page, valid) = ("docs/ipamctl.md", valid.join("\n"));
    let commands = replay(page, "# ipamctl", &sandbox, &valid, |command| {
        if command.contains("20-wrong") {
            write_wrong(&sandbox);
        }
        if command.contains(" release ") {
            add_again(&sandbox);
        }
    });
    assert!(commands >= 8, "{commands}");
}

/// A conflist with two faults.
fn write_wrong(sandbox: &Sandbox) {
    let ranges = json!({"ranges": [[{"subnet": "10.77.0.48/28"}]]});
    let delegates = ["ipam-ds-ranges", "ipam-da-host-locl"];
    let mut config = sandbox.config("1.0.0", &delegates, &ranges);
    config["name"] = json!("wrong");
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
    let call = sandbox.call("ipam-delegated", "ADD", &config);
    call.container(CONTAINERS[2].0).run().result();
}

//! The reference plugins `host-local` and `static` as delegates. They don't know chains, print
//! nothing on DEL and CHECK, and support CNI up to 1.0.0.

use harness::{Sandbox, needs};
use serde_json::json;

#[test]
fn host_local_alone_is_a_whole_chain() {
    needs!("host-local");
    for version in ["0.3.1", "0.4.0", "1.0.0"] {
        let sandbox = Sandbox::default().with_reference("host-local");
        let ipam =
            json!({"ranges": [[{"subnet": "10.1.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]});
        let mut config = sandbox.config(version, &["host-local"], &ipam);
        let added = sandbox.call("ipam-delegated", "ADD", &config).run();
        let direct = sandbox
            .call("host-local", "ADD", &config)
            .container("c2")
            .run();
        assert_eq!(added.stdout, direct.stdout.replace("10.1.0.3", "10.1.0.2"));
        assert_eq!(sandbox.reserved("testnet"), ["10.1.0.2", "10.1.0.3"]);
        config["prevResult"] = added.result();
        if version != "0.3.1" {
            sandbox
                .call("ipam-delegated", "CHECK", &config)
                .run()
                .nothing();
            let error = sandbox
                .call("ipam-delegated", "CHECK", &config)
                .container("c9")
                .run()
                .error();
            assert!(
                error["msg"].as_str().unwrap().starts_with("host-local: "),
                "{error}"
            );
        }
        sandbox
            .call("ipam-delegated", "DEL", &config)
            .run()
            .nothing();
        sandbox
            .call("ipam-delegated", "DEL", &config)
            .run()
            .nothing();
        assert_eq!(sandbox.reserved("testnet"), ["10.1.0.3"]);
    }
}

#[test]
fn host_local_works_behind_our_selector() {
    needs!("host-local");
    let sandbox = Sandbox::default().with_reference("host-local");
    let ipam = json!({"ranges": [[{"subnet": "10.1.0.0/24"}], [{"subnet": "fd00:1::/64"}]]});
    let mut config = sandbox.config("1.0.0", &["ipam-ds-ranges", "host-local"], &ipam);
    let added = sandbox.call("ipam-delegated", "ADD", &config).run();
    assert_eq!(added.ips(), ["10.1.0.2", "fd00:1::2"]);
    config["prevResult"] = added.result();
    sandbox
        .call("ipam-delegated", "CHECK", &config)
        .run()
        .nothing();
    sandbox
        .call("ipam-delegated", "DEL", &config)
        .run()
        .nothing();
    assert!(sandbox.reserved("testnet").is_empty());
    sandbox
        .call("ipam-delegated", "CHECK", &config)
        .run()
        .error();
    // Its own refusal is reported with its name.
    config["ipam"]["ranges"] = json!([[{"subnet": "10.1.0.0/30"}]]);
    sandbox
        .call("ipam-delegated", "ADD", &config)
        .run()
        .result();
    let error = sandbox
        .call("ipam-delegated", "ADD", &config)
        .container("c2")
        .run()
        .error();
    let msg = error["msg"].as_str().unwrap();
    assert!(
        msg.starts_with("host-local: ") && msg.contains("no IP addresses available"),
        "{error}"
    );
}

#[test]
fn host_local_is_undone_when_the_delegate_after_it_fails() {
    needs!("host-local");
    let sandbox = Sandbox::default()
        .with_reference("host-local")
        .with_script("fails", "cat > ${0%/*}/../stdin-of-$CNI_COMMAND; exit 1");
    let ipam = json!({"ranges": [[{"subnet": "10.1.0.0/24"}]]});
    let config = sandbox.config("1.0.0", &["host-local", "fails"], &ipam);
    let error = sandbox.call("ipam-delegated", "ADD", &config).run().error();
    assert_eq!(error["code"], 103, "{error}");
    // host-local had reserved the address, and has released it.
    let stdin = std::fs::read(sandbox.root().join("stdin-of-ADD")).unwrap();
    let stdin: serde_json::Value = serde_json::from_slice(&stdin).unwrap();
    let address = &stdin["prevResult"]["ips"][0]["address"];
    assert_eq!(address, "10.1.0.2/24", "{stdin}");
    assert!(sandbox.reserved("testnet").is_empty());
}

#[test]
fn static_works_as_a_delegate() {
    needs!("static");
    let sandbox = Sandbox::default().with_reference("static");
    let ipam = json!({
        "addresses": [{"address": "10.1.0.7/24", "gateway": "10.1.0.1"}, {"address": "fd00:1::7/64"}],
        "routes": [{"dst": "0.0.0.0/0"}],
        "dns": {"nameservers": ["10.1.0.1"]}
    });
    let mut config = sandbox.config("1.0.0", &["static"], &ipam);
    let added = sandbox.call("ipam-delegated", "ADD", &config).run();
    assert_eq!(added.ips(), ["10.1.0.7", "fd00:1::7"]);
    let direct = sandbox.call("static", "ADD", &config).run();
    assert_eq!(added.stdout, direct.stdout);
    config["prevResult"] = added.result();
    sandbox
        .call("ipam-delegated", "CHECK", &config)
        .run()
        .nothing();
    config["prevResult"]["ips"][0]["gateway"] = json!("10.1.0.2");
    let error = sandbox
        .call("ipam-delegated", "CHECK", &config)
        .run()
        .error();
    assert!(
        error["msg"].as_str().unwrap().starts_with("static: "),
        "{error}"
    );
    sandbox
        .call("ipam-delegated", "DEL", &config)
        .run()
        .nothing();
}

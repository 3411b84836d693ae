//! A network whose ranges come from the runtime, by the capability `ipRanges`. GC and
//! STATUS are called without `runtimeConfig` (specification, section 3).

use harness::{Call, RANGES_CHAIN, Sandbox};
use serde_json::{Value, json};

/// A call of the chain, with or without ranges from the runtime.
fn call(sandbox: &Sandbox, command: &str, ranges: Option<Value>) -> Call {
    let mut config = sandbox.config("1.1.0", &RANGES_CHAIN, &json!({}));
    config["capabilities"] = json!({"ipRanges": true});
    if let Some(ranges) = ranges {
        config["runtimeConfig"] = json!({ "ipRanges": ranges });
    }
    if command == "GC" {
        config["cni.dev/valid-attachments"] = json!([{"containerID": "c1", "ifname": "eth0"}]);
    }
    sandbox.call("ipam-delegated", command, &config)
}

fn ranges() -> Option<Value> {
    Some(json!([[{"subnet": "10.7.0.0/24"}]]))
}

#[test]
fn gc_and_status_succeed_without_the_runtimes_ranges() {
    let sandbox = Sandbox::default();
    call(&sandbox, "STATUS", None).run().nothing();
    call(&sandbox, "GC", None).run().nothing();
    for container in ["c1", "c2"] {
        let add = call(&sandbox, "ADD", ranges());
        add.container(container).run().result();
    }
    call(&sandbox, "STATUS", None).run().nothing();
    let gc = call(&sandbox, "GC", None).run();
    gc.nothing();
    assert_eq!(gc.stderr, "");
    assert_eq!(sandbox.reserved("testnet"), ["10.7.0.2"]);
}

#[test]
fn status_without_ranges_is_refused_unless_the_runtime_may_give_some() {
    let sandbox = Sandbox::default();
    let delegates = ["ipam-ds-ranges", "ipam-da-host-local"];
    let mut config = sandbox.config("1.1.0", &delegates, &json!({}));
    for capabilities in [
        json!(null),
        json!({}),
        json!({"ipRanges": false, "ips": true}),
    ] {
        config["capabilities"] = capabilities;
        let status = sandbox.run("STATUS", &config);
        status.refused(7, "ipam.ranges is missing or empty");
    }
    // ADD is refused in the same way, for any container.
    for (pools, text) in [
        (json!(null), "ipam.pools is missing"),
        (json!({}), "ipam.pools: invalid type"),
    ] {
        let ipam = json!({"pools": pools});
        let delegates = ["ipam-ds-static", "ipam-da-host-local"];
        let config = sandbox.config("1.1.0", &delegates, &ipam);
        for command in ["ADD", "STATUS"] {
            let output = sandbox.run(command, &config);
            output.refused(7, text);
        }
    }
}

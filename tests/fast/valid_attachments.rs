//! GC releases the attachments that `cni.dev/valid-attachments` doesn't list. Without the list, it
//! releases nothing.

use harness::{Output, Sandbox};
use serde_json::{Value, json};

const KEY: &str = "cni.dev/valid-attachments";

/// GC with this list, once by the chain and once by the allocator without a chain, while c1 has an
/// address from that plugin.
fn gc(list: Option<&Value>) -> Vec<(Sandbox, Output)> {
    ["ipam-delegated", "ipam-da-host-local"]
        .into_iter()
        .map(|plugin| {
            let sandbox = Sandbox::default();
            let delegates = ["ipam-ds-ranges", "ipam-da-host-local"];
            let ipam = json!({"ranges": [[{"subnet": "10.7.0.0/24"}]]});
            let mut config = sandbox.config("1.1.0", &delegates, &ipam);
            if plugin == "ipam-da-host-local" {
                config["prevResult"] = json!({"pools": [{"subnet": "10.7.0.0/24"}]});
            }
            sandbox.call(plugin, "ADD", &config).run().result();
            if let Some(list) = list {
                config[KEY] = list.clone();
            }
            let output = sandbox.call(plugin, "GC", &config).run();
            (sandbox, output)
        })
        .collect()
}

#[test]
fn without_a_list_of_valid_attachments_nothing_is_released() {
    for list in [
        None,
        Some(json!({})),
        Some(json!([{"containerID": "c1"}])),
        Some(json!([{"containerID": "../c1", "ifname": "eth0"}])),
    ] {
        for (sandbox, output) in gc(list.as_ref()) {
            let error = output.error();
            assert_eq!(error["code"], 7, "{error}");
            assert!(error["msg"].as_str().unwrap().contains(KEY), "{error}");
            assert_eq!(sandbox.reserved("testnet"), ["10.7.0.2"]);
        }
    }
}

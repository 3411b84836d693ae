//! Delegates whose executable is missing on DEL.

use std::fs;

use harness::Sandbox;
use serde_json::json;

const GIVES: &str =
    r#"[ $CNI_COMMAND = ADD ] || exit 0; echo '{"ips":[{"address":"10.7.0.9/24"}]}'"#;

fn added() -> Sandbox {
    let sandbox = Sandbox::default()
        .with_script("old", GIVES)
        .with_script("new", "[ $CNI_COMMAND != ADD ] || echo '{}'");
    let config = sandbox.config("1.0.0", &["old"], &json!({}));
    sandbox.chain_call("ADD", "c1", &config).run().result();
    fs::remove_file(sandbox.plugins().join("old")).unwrap();
    sandbox
}

#[test]
fn what_a_missing_delegate_holds_stays_recorded_until_it_is_installed_again() {
    let sandbox = added();
    let mut config = sandbox.config("1.1.0", &["new"], &json!({}));
    config["cni.dev/valid-attachments"] = json!([]);
    for command in ["DEL", "GC"] {
        let error = sandbox.chain_call(command, "c1", &config).run().error();
        assert_eq!(error["code"], 100, "{command}: {error}");
        assert!(error["msg"].as_str().unwrap().contains("old"), "{error}");
        assert_eq!(sandbox.records("testnet"), ["c1:eth0.json"], "{command}");
    }
    sandbox.write_executable("old", &format!("#!/bin/sh\n{GIVES}"));
    sandbox.chain_call("DEL", "c1", &config).run().nothing();
    assert!(sandbox.records("testnet").is_empty());
}

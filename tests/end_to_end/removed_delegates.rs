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
fn a_delegate_that_is_neither_configured_nor_installed_is_named_and_passed_over() {
    for command in ["DEL", "GC"] {
        let sandbox = added();
        let mut config = sandbox.config("1.1.0", &["new"], &json!({}));
        config["cni.dev/valid-attachments"] = json!([]);
        let output = sandbox.chain_call(command, "c1", &config).run();
        output.nothing();
        for word in ["WARN", "delegate=old", "10.7.0.9"] {
            assert!(output.stderr.contains(word), "{word}: {output:?}");
        }
        assert!(sandbox.records("testnet").is_empty());
    }
}

#[test]
fn a_delegate_that_is_configured_and_not_installed_fails_del() {
    let sandbox = added();
    let config = sandbox.config("1.0.0", &["new", "old"], &json!({}));
    assert_eq!(sandbox.chain_call("DEL", "c1", &config).run().code(), 100);
    assert_eq!(sandbox.records("testnet"), ["c1:eth0.json"]);
}

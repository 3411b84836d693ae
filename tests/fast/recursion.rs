//! A chain that would call itself is refused.

use std::fs;
use std::os::unix::fs::symlink;

use harness::Sandbox;
use serde_json::json;

/// Checks that the chain is refused with code 7 by its delegate.
#[track_caller]
fn is_refused(sandbox: &Sandbox, delegates: &[&str]) {
    for command in ["ADD", "DEL", "CHECK", "GC", "STATUS"] {
        let mut config = sandbox.config("1.1.0", delegates, &json!({}));
        config["cni.dev/valid-attachments"] = json!([]);
        config["prevResult"] = json!({"ips": []});
        let error = sandbox.run(command, &config).error();
        let msg = error["msg"].as_str().unwrap();
        // An executable of all plugins may have been called by a name that it doesn't know.
        let is_refused = error["code"] == 7
            && msg.contains("a delegate has called ipam-delegated again")
            || error["code"] == 4 && msg.contains("is not a plugin's name");
        assert!(is_refused, "{command}: {error}");
        assert!(sandbox.records("testnet").is_empty());
    }
}

fn sandbox() -> Sandbox {
    Sandbox::default().with_script("marks", ": > ${0%/*}/../ran; echo '{}'")
}

#[test]
fn ipam_delegated_is_no_delegate_of_its_own() {
    is_refused(&sandbox(), &["marks", "ipam-delegated"]);
}

#[test]
fn ipam_delegated_under_another_name_is_no_delegate_of_its_own() {
    let sandbox = sandbox();
    let ourselves = fs::canonicalize(sandbox.plugins().join("ipam-delegated")).unwrap();
    symlink(&ourselves, sandbox.plugins().join("ipam-da-innocent")).unwrap();
    is_refused(&sandbox, &["marks", "ipam-da-innocent"]);
    // A hard link.
    let folder = ourselves.parent().unwrap();
    let link = folder.join(format!("ipam-da-hard-{}", std::process::id()));
    fs::hard_link(&ourselves, &link).unwrap();
    symlink(&link, sandbox.plugins().join("ipam-da-hard")).unwrap();
    is_refused(&sandbox, &["marks", "ipam-da-hard"]);
    fs::remove_file(link).unwrap();
}

#[test]
fn a_delegate_that_calls_it_back_is_refused() {
    let sandbox = sandbox().with_script("calls-back", "exec \"${0%/*}/ipam-delegated\"");
    let config = sandbox.config("1.1.0", &["calls-back", "marks"], &json!({}));
    let refused = sandbox.run("ADD", &config);
    refused.refused(7, "calls-back: ");
    refused.refused(7, "called ipam-delegated again");
    refused.refused(7, "IPAM_DELEGATED_DELEGATE");
    assert!(!sandbox.root().join("ran").exists());
    assert_eq!(sandbox.processes_that_stay(), [""; 0]);
}

//! Records of attachments: used by DEL, GC and a repeated ADD.

use std::fs;

use harness::{Node, Sandbox, needs};
use serde_json::json;

mod files;

/// A selector whose back end is the folder `backend` beside the plugins. It fails while the folder
/// is missing.
const SELECTOR: &str = r#"[ -d "${0%/*}/../backend" ] || { echo '{"code":99,"msg":"the back end is gone"}'; exit 1; }
cat > /dev/null
[ "$CNI_COMMAND" = ADD ] || exit 0
echo '{"cniVersion":"1.0.0","ips":[],"pools":[{"name":"found","subnet":"10.9.0.0/24"}]}'"#;

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::default().with_script("ipam-ds-backend", SELECTOR);
    fs::create_dir(sandbox.root().join("backend")).unwrap();
    sandbox
}

#[test]
fn a_selector_whose_back_end_is_gone_does_not_keep_the_address() {
    let sandbox = sandbox();
    let delegates = ["ipam-ds-backend", "ipam-da-host-local"];
    let mut config = sandbox.config("1.0.0", &delegates, &json!({}));
    let added = sandbox.run("ADD", &config).result();
    sandbox.run_for("ADD", "c2", &config).result();
    assert_eq!(sandbox.reserved("pools"), ["10.9.0.2", "10.9.0.3"]);
    fs::remove_dir(sandbox.root().join("backend")).unwrap();

    config["prevResult"] = added;
    let output = sandbox.run("DEL", &config);
    output.nothing();
    output.warns(["the back end is gone"]);
    assert_eq!(sandbox.reserved("pools"), ["10.9.0.3"]);
    assert_eq!(sandbox.records("testnet"), ["c2:eth0.json"]);
    // Without the runtime's prevResult as well.
    config.as_object_mut().unwrap().remove("prevResult");
    sandbox.run_for("DEL", "c2", &config).nothing();
    assert!(sandbox.reserved("pools").is_empty() && sandbox.records("testnet").is_empty());
    // An attachment that was never added has no recorded result.
    assert_eq!(sandbox.run_for("DEL", "c3", &config).code(), 99);
}

/// A namespace that is mounted at this path, as runtimes do it.
fn namespace_at(node: &Node, path: &str) {
    node.sh(&format!("touch {path}; unshare --net={path} true"));
}

#[test]
fn an_attachment_whose_network_namespace_is_gone_is_undone_and_added_anew() {
    needs!("root");
    let sandbox = Sandbox::default();
    let config = sandbox.config_of_ranges("1.0.0");
    let node = Node::new();
    let path = sandbox.root().join("netns");
    let path = path.to_str().unwrap();
    let add = || {
        let call = sandbox.call("ipam-delegated", "ADD", &config);
        call.env("CNI_NETNS", path).run_on(&node)
    };
    namespace_at(&node, path);
    assert_eq!(add().ips(), ["10.1.0.2"]);
    assert_eq!(add().code(), 110);
    // Another one at the same path, as Nomad has it after a boot; as if Linux had given it the number
    // of the old inode.
    node.sh(&format!("umount {path}"));
    namespace_at(&node, path);
    let record = sandbox.state_dir().join("testnet/c1:eth0.json");
    let recorded = fs::read_to_string(&record).unwrap();
    let (start, rest) = recorded.split_once(r#""inode":"#).unwrap();
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    let inode = node.sh(&format!("stat --format=%i {path}"));
    let inode = inode.trim();
    fs::write(&record, format!("{start}\"inode\":{inode}{rest}")).unwrap();
    assert_eq!(add().ips(), ["10.1.0.3"]);
    // None at this path, as podman has it after a boot.
    node.sh(&format!("umount {path}; rm {path}"));
    let call = sandbox.call("ipam-delegated", "ADD", &config).run_on(&node);
    assert_eq!(call.ips(), ["10.1.0.4"]);
    assert_eq!(sandbox.reserved("testnet"), ["10.1.0.4"]);
}

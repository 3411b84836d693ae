//! The user of `docs/cluster.md` has exactly the rights that it needs.

use std::fs;
use std::process::Command;

use harness::{ETCD, ETCDCTL, needs};
use serde_json::{Value, json};

use super::Cluster;
use crate::documents::document;

/// The manual's commands that create the user, without the prompt for a password.
fn commands() -> String {
    let manual = document("docs/cluster.md");
    let start = manual.find("etcdctl role add").unwrap();
    let end = start + manual[start..].find("```").unwrap();
    let asks = "user add ipam-node ";
    let commands = &manual[start..end];
    assert!(commands.contains(asks), "{commands}");
    commands.replace(asks, "user add ipam-node:good ")
}

#[test]
fn the_manuals_user_has_the_rights_that_the_plugins_need_and_no_more() {
    needs!(ETCD, ETCDCTL);
    let cluster = Cluster::default();
    cluster
        .etcd
        .put("/ipam/v1/pools/lan", r#"{"subnet":"10.40.0.0/24"}"#);
    cluster.etcd.put(
        "/ipam/v1/pools/fast",
        r#"{"subnet":"10.41.0.0/24","block":28}"#,
    );
    let made = Command::new("sh")
        .args(["-ec", &commands()])
        .env("ETCDCTL_API", "3")
        .env("ETCDCTL_ENDPOINTS", cluster.etcd.url())
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    for line in [
        "user add root:secret",
        "user grant-role root root",
        "auth enable",
    ] {
        cluster.etcd.ctl(&line.split(' ').collect::<Vec<_>>());
    }
    let password = cluster.sandbox.root().join("password");
    fs::write(&password, "good\n").unwrap();
    let with_user = |mut config: Value| {
        let etcd = &mut config["ipam"]["etcd"];
        etcd["username"] = json!("ipam-node");
        etcd["passwordFile"] = json!(password);
        config
    };
    let addresses = json!([{"name": "lan", "sticky": "db-0"}]);
    let addresses = with_user(cluster.config("n1", &["ipam-da-etcd"], &addresses));
    let blocks = json!([{"name": "fast"}]);
    let blocks = with_user(cluster.config("n1", &["ipam-ds-etcd", "ipam-da-host-local"], &blocks));
    for config in [&addresses, &blocks] {
        // No address is held yet.
        cluster.call("STATUS", "", config).run().nothing();
        cluster.del("c0", config).nothing();
        cluster.gc(&[], config).nothing();
        let mut checked = config.clone();
        checked["prevResult"] = cluster.add("c1", config).result();
        cluster.call("CHECK", "c1", &checked).run().nothing();
        cluster.call("STATUS", "", config).run().nothing();
        cluster.gc(&["c1"], config).nothing();
        cluster.del("c1", config).nothing();
        cluster.add("c2", config).result();
        cluster.gc(&[], config).nothing();
    }
    let mut write = vec![
        "--user",
        "ipam-node:good",
        "put",
        "/ipam/v1/pools/lan",
        "{}",
    ];
    for key in ["/ipam/v1/pools/lan", "/other"] {
        write[3] = key;
        let output = cluster.etcd.try_ctl(&write);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("permission denied"), "{output:?}");
    }
}

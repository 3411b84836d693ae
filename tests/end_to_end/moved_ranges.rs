//! The border between two pools of one subnet is moved while containers hold addresses in the
//! moved part: no other container gets these.

use std::fs;
use std::path::Path;

use harness::{Installation, Sandbox, write_executable};
use serde_json::{Value, json};

const CHAIN: [&str; 2] = ["ipam-ds-rules", "ipam-da-host-local"];

/// Two slices of a subnet: `shop` from the address 2 to `border`, `rest` from there to 9.
fn slices(border: u8) -> Value {
    let subnet = "10.1.0.0/24";
    let slice = |first: u8, last: u8| json!({"subnet": subnet, "rangeStart": format!("10.1.0.{first}"), "rangeEnd": format!("10.1.0.{last}")});
    json!({"shop": slice(2, border), "rest": slice(border + 1, 9)})
}

fn rules() -> Value {
    json!([{"pools": ["${K8S_POD_NAMESPACE}"]}])
}

fn write(folder: &Path, content: &Value) {
    fs::write(folder.join("new"), content.to_string()).unwrap();
    fs::rename(folder.join("new"), folder.join("pools.json")).unwrap();
}

/// Reserves all addresses of `shop`, while containers of `rest` hold 5 and 6, which `change` moves
/// to `shop`.
fn move_border(sandbox: &Sandbox, config: &Value, moved: &Value, change: impl Fn()) {
    let add =
        |config: &Value, pool: &str, name: &str| sandbox.pod_call("ADD", config, pool, name).run();
    let ips = |pool: &str, name: &str| add(moved, pool, name).ips();
    for (name, ip) in [("a", "10.1.0.5"), ("b", "10.1.0.6")] {
        assert_eq!(add(config, "rest", name).ips(), [ip]);
    }
    change();
    for (name, ip) in [("a", "2"), ("b", "3"), ("c", "4"), ("d", "7")] {
        assert_eq!(ips("shop", name), [format!("10.1.0.{ip}")]);
    }
    assert_eq!(add(moved, "shop", "e").error()["code"], 11);
    // A released address is given again immediately.
    sandbox.pod_call("DEL", moved, "rest", "b").run().nothing();
    assert_eq!(ips("shop", "e"), ["10.1.0.6"]);
    assert_eq!(sandbox.reserved("rest"), ["10.1.0.5"]);
}

#[test]
fn what_a_pool_takes_over_stays_with_its_holders_when_a_file_changes() {
    let sandbox = Sandbox::default();
    let folder = sandbox.root().join("ipam.d");
    fs::create_dir(&folder).unwrap();
    let config = sandbox.config("1.1.0", &CHAIN, &json!({"poolsDir": folder}));
    let put = |border| write(&folder, &json!({"pools": slices(border), "rules": rules()}));
    put(4);
    move_border(&sandbox, &config, &config, || put(7));
}

#[test]
fn what_a_pool_takes_over_stays_with_its_holders_when_the_configuration_changes() {
    let sandbox = Sandbox::default();
    let config = |border| {
        let ipam = json!({"pools": slices(border), "rules": rules()});
        sandbox.config("1.1.0", &CHAIN, &ipam)
    };
    move_border(&sandbox, &config(4), &config(7), || {});
}

#[test]
fn a_renamed_pool_and_a_networks_own_directory_keep_their_addresses() {
    let sandbox = Sandbox::default();
    let config = |pool: &str| {
        let pools = json!({pool: {"subnet": "10.1.0.0/29"}});
        let ipam = json!({"pools": pools, "rules": rules()});
        sandbox.config("1.1.0", &CHAIN, &ipam)
    };
    let add =
        |config: &Value, pool: &str, name: &str| sandbox.pod_call("ADD", config, pool, name).run();
    assert_eq!(add(&config("old"), "old", "a").ips(), ["10.1.0.2"]);
    assert_eq!(add(&config("new"), "new", "b").ips(), ["10.1.0.3"]);
    // A configuration without the rules: its addresses are under the network's name.
    let ranges = json!({"ranges": [[{"subnet": "10.1.0.0/29", "rangeStart": "10.1.0.4"}]]});
    let ranges = sandbox.config("1.1.0", &["ipam-ds-ranges", CHAIN[1]], &ranges);
    assert_eq!(add(&ranges, "x", "c").ips(), ["10.1.0.4"]);
    assert_eq!(add(&config("new"), "new", "d").ips(), ["10.1.0.5"]);
    assert_eq!(add(&config("new"), "new", "e").ips(), ["10.1.0.6"]);
    assert_eq!(add(&config("new"), "new", "f").error()["code"], 11);
}

#[test]
fn an_address_that_a_rule_requests_is_refused_while_another_pool_holds_it() {
    let sandbox = Sandbox::default();
    let config = |border, ip: Option<&str>| {
        let mut rule = rules();
        if let Some(ip) = ip {
            rule[0]["ip"] = json!(ip);
        }
        let ipam = json!({"pools": slices(border), "rules": rule});
        sandbox.config("1.1.0", &CHAIN, &ipam)
    };
    let add = |config: &Value, pool: &str| sandbox.pod_call("ADD", config, pool, "a").run();
    assert_eq!(add(&config(4, None), "rest").ips(), ["10.1.0.5"]);
    let pinned = config(7, Some("10.1.0.5"));
    let error = add(&pinned, "shop").error();
    assert_eq!(error["code"], 111, "{error}");
    assert!(error["msg"].as_str().unwrap().contains("rest"), "{error}");
    sandbox
        .pod_call("DEL", &config(4, None), "rest", "a")
        .run()
        .nothing();
    assert_eq!(add(&pinned, "shop").ips(), ["10.1.0.5"]);
}

#[test]
fn the_same_addresses_of_another_network_do_not_matter() {
    let sandbox = Sandbox::default();
    let config = |network: &str, pool: &str| {
        let ipam = json!({"pools": {pool: {"subnet": "10.1.0.0/24"}}, "rules": rules()});
        let mut config = sandbox.config("1.1.0", &CHAIN, &ipam);
        config["name"] = json!(network);
        config
    };
    for (network, pool) in [("red", "of-red"), ("green", "of-green")] {
        let output = sandbox
            .pod_call("ADD", &config(network, pool), pool, "a")
            .run();
        assert_eq!(output.ips(), ["10.1.0.2"]);
    }
}

#[test]
fn the_installer_and_ipamctl_check_refuse_a_border_over_held_addresses_and_name_the_holders() {
    let installation = Installation::default();
    let sandbox = &installation.sandbox;
    let [pools, conflists] =
        ["config/pools", "config/conflists"].map(|name| installation.path(name));
    for folder in [&pools, &conflists, &sandbox.plugins()] {
        fs::create_dir_all(folder).unwrap();
    }
    write_executable(&sandbox.plugins().join("bridge"), "#!/bin/sh\n");
    let ipam = json!({
        "type": "ipam-delegated", "delegates": CHAIN, "poolsDir": installation.path("cni/ipam.d"),
        "dataDir": sandbox.data_dir(), "stateDir": sandbox.state_dir()});
    let list = json!({"cniVersion": "1.0.0", "name": "tenants", "plugins": [{"type": "bridge", "ipam": ipam}]});
    write_named(&conflists, "10-tenants.conflist", &list);
    let put = |border| write(&pools, &json!({"pools": slices(border), "rules": rules()}));
    let words = [
        format!("--pools-from={}", pools.display()),
        format!("--conflists-from={}", conflists.display()),
    ];
    let release = installation.release("1.0.0");
    let install = || {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        installation
            .call(&release, &[&["--once"], &words[..]].concat())
            .run()
    };
    put(4);
    install().nothing();
    // Held by this network, by another one that shares the pool, and by an unrelated one.
    for (directory, ip, content) in [
        ("rest", "10.1.0.5", "c1\r\neth0\r\ntenants"),
        ("rest", "10.1.0.6", "c2\r\neth0\r\nothers"),
        ("theirs", "10.1.0.7", "c3\r\neth0"),
    ] {
        fs::create_dir_all(sandbox.data_dir().join(directory)).unwrap();
        fs::write(sandbox.data_dir().join(directory).join(ip), content).unwrap();
    }
    put(7);
    let output = install();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = "pool shop has addresses that containers hold of another: 10.1.0.5 of rest by c1, \
                10.1.0.6 of rest by c2; what is in use stays as it was";
    assert!(output.stderr.contains(said), "{}", output.stderr);
    let used = fs::read_to_string(installation.path("cni/ipam.d/pools.json")).unwrap();
    assert!(
        used.contains("10.1.0.4") && !used.contains("10.1.0.8"),
        "{used}"
    );
    for ip in ["10.1.0.5", "10.1.0.6"] {
        fs::remove_file(sandbox.data_dir().join("rest").join(ip)).unwrap();
    }
    install().nothing();
}

fn write_named(folder: &Path, name: &str, content: &Value) {
    fs::write(folder.join(name), content.to_string()).unwrap();
}

//! The kinds: their output in `kubectl`, and what their schemas refuse.

use harness::{KUBECTL, KUBERNETES_PROGRAMS, KubernetesApi, needs};
use serde_json::{Value, json};

use super::objects::{address, block, invalid, mark, object, pool, refused, registration};

/// The fields of each line of a table.
fn table(text: &str) -> Vec<Vec<String>> {
    let fields = |line: &str| line.split_whitespace().map(str::to_owned).collect();
    text.lines().map(fields).collect()
}

/// An object with another value in its spec.
fn with(mut object: Value, key: &str, value: &Value) -> Value {
    object["spec"][key] = value.clone();
    object
}

/// An object with another name.
fn named(mut object: Value, name: &str) -> Value {
    object["metadata"]["name"] = json!(name);
    object
}

#[test]
fn the_kinds_are_explained_listed_and_valid() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let api = KubernetesApi::start().unwrap();
    api.install();
    every_field_is_explained(&api);
    lists_show_what_people_ask_for(&api);
    pools_are_refused(&api);
    names_are_those_of_the_spec(&api);
    what_a_claim_says_never_changes(&api);
}

fn every_field_is_explained(api: &KubernetesApi) {
    for kind in KubernetesApi::RESOURCES {
        let crd = &api.get("crd", &[&format!("{kind}.ipam-delegated.io")])[0];
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let what = schema["description"].as_str().unwrap();
        let explained = api.kubectl(&["explain", kind]);
        let first = what.split(' ').take(4).collect::<Vec<_>>().join(" ");
        assert!(explained.contains(&first), "{explained}");
        let fields = schema["properties"]["spec"]["properties"].as_object();
        for (name, field) in fields.unwrap() {
            assert!(field["description"].is_string(), "{kind}: {name}");
        }
    }
    let explained = api.kubectl(&["explain", "ipool.spec.block"]);
    assert!(
        explained.contains("Prefix length of the blocks"),
        "{explained}"
    );
}

fn lists_show_what_people_ask_for(api: &KubernetesApi) {
    let ranges = json!({"ranges": [{"subnet": "10.1.0.0/16"}], "block": 26, "vlan": {"id": 7}});
    api.apply(&json!([
        pool(
            "lan",
            &json!({"subnet": "10.0.0.0/24", "routes": [{"dst": "0.0.0.0/0"}]})
        ),
        pool("fast", &ranges),
        address("10.0.0.5", "worker-1"),
        block("10.1.0.64/26", "worker-2"),
        registration("worker-1", "1"),
        mark("cluster"),
    ]));
    let status = json!({"status": {
        "size": 252, "reserved": 1, "byNode": {"worker-1": 1}, "observedAt": "2026-11-21T14:38:21Z",
    }});
    let patch = [
        "patch",
        "ipool",
        "lan",
        "--subresource=status",
        "--type=merge",
        "-p",
    ];
    api.kubectl(&[&patch[..], &[&status.to_string()]].concat());
    let columns = |resource: &str, columns: &str, line: &str| {
        let lines = table(&api.kubectl(&["get", resource]));
        assert_eq!(lines[0].join(" "), columns);
        let found = lines[1..].iter().any(|fields| {
            // The last column is an age.
            fields[..fields.len() - 1].join(" ") == line
        });
        assert!(found, "{line}: {lines:?}");
    };
    let all = "NAME RANGES BLOCK SIZE RESERVED OBSERVED AGE";
    columns("ipool", all, "lan 10.0.0.0/24 252 1 2026-11-21T14:38:21Z");
    columns("ipool", all, r#"fast [{"subnet":"10.1.0.0/16"}] 26"#);
    columns(
        "ipaddr",
        "NAME POOL IP NODE NETWORK NAMESPACE POD AGE",
        "lan.10.0.0.5 lan 10.0.0.5 worker-1 storage shop web-0",
    );
    columns(
        "ipblock",
        "NAME POOL CIDR NODE SINCE",
        "fast.10.1.0.64-26 fast 10.1.0.64/26 worker-2",
    );
    let selected = api.get("addresses", &["-l", "ipam-delegated.io/node=worker-1"]);
    assert_eq!(selected.len(), 1);
    // Unknown keys of a pool are kept.
    assert_eq!(api.get("pool", &["fast"])[0]["spec"], ranges);
    // All kinds have one category.
    assert!(
        api.kubectl(&["get", "ipam"])
            .contains("restore.ipam-delegated.io/cluster")
    );
}

fn pools_are_refused(api: &KubernetesApi) {
    for (spec, message) in [
        (
            json!({}),
            "the definition must have either ranges or subnet",
        ),
        (
            json!({"subnet": "10.0.0.0/24", "ranges": [{"subnet": "10.0.1.0/24"}]}),
            "the definition must have either ranges or subnet",
        ),
        (json!({"ranges": []}), "should have at least 1 items"),
        (
            json!({"subnet": "10.0.0.0"}),
            "it must be a subnet in CIDR notation",
        ),
        (
            json!({"subnet": "10.0.0.1/24"}),
            "a subnet must not have host bits",
        ),
        (
            json!({"subnet": "10.0.0.0/31"}),
            "a subnet must have room for two addresses",
        ),
        (
            json!({"subnet": "fd00::/127"}),
            "a subnet must have room for two addresses",
        ),
        (
            json!({"subnet": "10.0.0.0/24", "rangeStart": "10.0.0.300"}),
            "it must be an IP address",
        ),
        (
            json!({"subnet": "10.0.0.0/24", "rangeStart": "10.0.1.1"}),
            "rangeStart must be in the subnet",
        ),
        (
            json!({"ranges": [{"subnet": "10.0.0.0/24", "rangeEnd": "fd00::1"}]}),
            "rangeEnd must be in the subnet",
        ),
        (
            json!({"subnet": "10.0.0.0/24", "gateway": "x"}),
            "it must be an IP address",
        ),
        (
            json!({"subnet": "10.0.0.0/24", "exclude": ["10.0.0.1-x"]}),
            "it must be an address, a subnet or an interval",
        ),
        (
            json!({"subnet": "10.0.0.0/24", "block": 23}),
            "block must be at least the prefix length",
        ),
        (
            json!({"ranges": [{"subnet": "10.0.0.0/24"}], "block": 31}),
            "block must be at least the prefix length",
        ),
        (
            json!({"subnet": "10.0.0.0/24", "block": "26"}),
            "must be of type integer",
        ),
    ] {
        invalid(api, &pool("wrong", &spec), message);
    }
    let long = "a".repeat(64);
    let valid = json!({"subnet": "10.9.0.0/24"});
    invalid(
        api,
        &pool(&long, &valid),
        "a pool's name has at most 63 characters",
    );
    for spec in [
        json!({"subnet": "10.9.0.0/24", "gateway": "", "rangeStart": "", "block": 30}),
        json!({"subnet": "fd00::/64", "exclude": ["fd00::1", "fd00::/80", "fd00::5-fd00::9"]}),
    ] {
        api.apply(&pool(&long[1..], &spec));
        api.kubectl(&[
            "patch",
            "ipool",
            &long[1..],
            "--subresource=status",
            "--type=merge",
            "-p",
            r#"{"status":{"reserved":0}}"#,
        ]);
    }
}

fn names_are_those_of_the_spec(api: &KubernetesApi) {
    let ipv6 = |name: &str, ip: &str| named(address(ip, "n1"), name);
    for (name, ip) in [
        ("lan.fd00-0-0-0-0-0-0-5", "fd00::5"),
        ("lan.0-0-0-0-0-0-0-1", "::1"),
        ("lan.fd00-0-0-0-0-0-0-0", "fd00::"),
        ("lan.1-2-3-4-5-6-7-8", "1:2:3:4:5:6:7:8"),
        ("lan.1-0-0-4-0-0-0-8", "1:0:0:4::8"),
    ] {
        api.apply(&ipv6(name, ip));
    }
    let name = "the name must be POOL.IP";
    let spelling = "it must be an IP address in its shortest spelling";
    for (object, message) in [
        (named(address("10.0.0.9", "n1"), "lan.10.0.0.8"), name),
        (named(address("10.0.0.9", "n1"), "lan.10.0.0.9.1"), name),
        (
            named(address("10.0.0.9", "n1"), "wlan.10.0.0.9"),
            "begin with the pool's and a dot",
        ),
        (
            named(address("10.0.0.9", "n1"), "lan"),
            "begin with the pool's and a dot",
        ),
        (ipv6("lan.fd00-0-0-0-0-0-0-6", "fd00::7"), name),
        (ipv6("lan.fd00-0-0-0-0-0-0-07", "fd00::7"), name),
        (ipv6("lan.fd00--7", "fd00::7"), name),
        (ipv6("lan.fd00-0-0-0-0-0-0-7", "fd00:0::7"), spelling),
        (ipv6("lan.fd00-0-0-0-0-0-0-a", "fd00::A"), spelling),
        (address("10.0.0.09", "n1"), spelling),
        (
            address("10.0.0.9", "Node_1"),
            "spec.node in body should match",
        ),
        (
            with(address("10.0.0.9", "n1"), "ifname", &json!("")),
            "should be at least 1 chars",
        ),
    ] {
        invalid(api, &object, message);
    }
    let block6 = |name: &str, cidr: &str| {
        with(
            named(block("10.1.0.0/26", "n1"), name),
            "cidr",
            &json!(cidr),
        )
    };
    api.apply(&block6("fast.fd00-0-0-0-0-0-0-40-122", "fd00::40/122"));
    let name = "the name must be POOL.NETWORK-LENGTH";
    for (object, message) in [
        (named(block("10.1.0.0/26", "n1"), "fast.10.1.0.0-27"), name),
        (named(block("10.1.0.0/26", "n1"), "fast.10.1.0.64-26"), name),
        (block6("fast.fd00-0-0-0-0-0-0-40-122", "fd00::80/122"), name),
        (block6("fast.fd00-0-0-0-0-0-0-80-123", "fd00::80/122"), name),
        (block6("fast.fd00-0-0-0-0-0-0-80", "fd00::80/122"), name),
        (block("10.1.0.1/26", "n1"), "without host bits"),
        (
            block6("fast.fd00-0-0-0-0-0-0-80-122", "fd00:0::80/122"),
            "in its shortest spelling",
        ),
    ] {
        invalid(api, &object, message);
    }
    let key = |name: &str| {
        object(
            "StickyKey",
            name,
            &json!({"pool": "lan", "key": "db/0", "ip": "10.0.0.5"}),
        )
    };
    api.apply(&key("lan.0123456789abcdef0123456789abcdef"));
    invalid(api, &key("lan.x"), "the name must be POOL.HASH");
    let spec = json!({"pool": "lan", "key": "db/0", "ip": "10.0.0.5"});
    api.apply(&object("StickyAddress", "lan.10.0.0.5", &spec));
    invalid(
        api,
        &object("StickyAddress", "lan.10.0.0.6", &spec),
        "the name must be POOL.IP",
    );
    for name in ["begin", "import", "node.worker-1.example.com"] {
        api.apply(&mark(name));
    }
    invalid(
        api,
        &mark("other"),
        "the name must be begin, import, cluster or node.NODE",
    );
}

fn what_a_claim_says_never_changes(api: &KubernetesApi) {
    let apply = |object: Value, text: &str| {
        refused(&api.try_apply(&api.kubeconfig(), &object), text);
    };
    let claimed = address("10.0.0.5", "worker-1");
    api.apply(&claimed);
    for (key, value) in [("containerID", "c2"), ("ifname", "eth0"), ("call", "2")] {
        let changed = with(claimed.clone(), key, &json!(value));
        apply(
            changed,
            "the spec can't be changed: a new holder is a new object",
        );
    }
    let claimed = with(block("10.1.0.64/26", "worker-2"), "since", &json!("later"));
    apply(
        claimed,
        "the spec can't be changed: a new owner is a new object",
    );
    let key = json!({"pool": "lan", "key": "db/1", "ip": "10.0.0.5"});
    let name = "lan.0123456789abcdef0123456789abcdef";
    apply(
        object("StickyKey", name, &key),
        "pool and key can't be changed",
    );
    api.apply(&registration("worker-1", "2"));
}

//! `kubectl edit` of a pool can't take away addresses that may be held; an import can.

use harness::{KUBECTL, KUBERNETES_PROGRAMS, KubernetesApi, needs};
use serde_json::{Value, json};

use super::objects::{allowed, pool, refused};

/// The message for a range with its own gateway.
const TAKES: &str = "only ipamctl import takes addresses or the gateway away from ";

/// Replaces the definition of the pool `lan`, as `kubectl edit` does.
fn edit(api: &KubernetesApi, spec: &Value) -> std::process::Output {
    let patch = json!([{"op": "replace", "path": "/spec", "value": spec}]).to_string();
    api.try_kubectl(&["patch", "ipool", "lan", "--type=json", "-p", &patch])
}

/// Writes the status of the pool `lan`.
fn set_reserved(api: &KubernetesApi, reserved: &Value) {
    let status = json!({"status": {"reserved": reserved}}).to_string();
    let words = [
        "patch",
        "ipool",
        "lan",
        "--subresource=status",
        "--type=merge",
        "-p",
        &status,
    ];
    api.kubectl(&words);
}

#[test]
fn an_edited_pool_keeps_what_may_be_held() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let api = KubernetesApi::start().unwrap();
    api.install();
    let lan = json!({"ranges": [
        {"subnet": "10.0.0.0/24", "rangeStart": "10.0.0.50", "rangeEnd": "10.0.0.99", "gateway": "10.0.0.9"},
        {"subnet": "10.0.1.0/24"},
    ]});
    api.apply(&pool("lan", &lan));
    // The policy is in force once it has refused a change.
    api.wait_for("the policy", || {
        !api.try_kubectl(&["delete", "ipool", "lan", "--dry-run=server"])
            .status
            .success()
    });
    for (reserved, why) in [
        (
            Value::Null,
            "since nobody has counted yet how many addresses are held",
        ),
        (json!(3), "since 3 addresses are held"),
    ] {
        set_reserved(&api, &reserved);
        nothing_is_taken_away(&api, &lan, why);
    }
    growing_is_allowed(&api, &lan);
    blocks_keep_their_size(&api);
    ipv6_is_compared(&api);
    nothing_held_is_nothing_taken(&api);
}

fn nothing_is_taken_away(api: &KubernetesApi, lan: &Value, why: &str) {
    let with = |path: &str, value: &str| {
        let mut changed = lan.clone();
        *changed.pointer_mut(path).unwrap() = json!(value);
        changed
    };
    let without = |number: usize| {
        let mut changed = lan.clone();
        changed["ranges"].as_array_mut().unwrap().remove(number);
        changed
    };
    let mut shrunk = lan.clone();
    shrunk["ranges"][1]["rangeStart"] = json!("10.0.1.20");
    let mut gateway = lan.clone();
    gateway["ranges"][1]["gateway"] = json!("10.0.1.254");
    for (spec, subnet) in [
        (without(0), "10.0.0.0/24"),
        (without(1), "10.0.1.0/24"),
        (with("/ranges/0/subnet", "10.0.0.0/25"), "10.0.0.0/24"),
        (with("/ranges/0/rangeStart", "10.0.0.51"), "10.0.0.0/24"),
        (with("/ranges/0/rangeEnd", "10.0.0.98"), "10.0.0.0/24"),
        (with("/ranges/0/gateway", "10.0.0.10"), "10.0.0.0/24"),
        (shrunk, "10.0.1.0/24"),
        (gateway, "10.0.1.0/24"),
    ] {
        refused(&edit(api, &spec), &format!("{TAKES}{subnet}, {why}"));
    }
    let mut blocks = lan.clone();
    blocks["block"] = json!(28);
    refused(&edit(api, &blocks), &format!("import changes block, {why}"));
    let deleted = api.try_kubectl(&["delete", "ipool", "lan"]);
    refused(&deleted, &format!("the pool can't be deleted, {why}"));
}

fn growing_is_allowed(api: &KubernetesApi, lan: &Value) {
    let mut larger = lan.clone();
    let range = json!({"subnet": "10.0.2.0/24"});
    larger["ranges"].as_array_mut().unwrap().insert(0, range);
    larger["ranges"][1]["rangeStart"] = json!("10.0.0.9");
    larger["ranges"][1]["rangeEnd"] = json!("10.0.0.100");
    larger["exclude"] = json!(["10.0.0.60"]);
    larger["routes"] = json!([{"dst": "0.0.0.0/0"}]);
    allowed(&edit(api, &larger));
    larger["ranges"][1]
        .as_object_mut()
        .unwrap()
        .remove("rangeEnd");
    allowed(&edit(api, &larger));
}

fn blocks_keep_their_size(api: &KubernetesApi) {
    let blocks = json!({"subnet": "10.0.0.0/24", "block": 28, "exclude": ["10.0.0.5"]});
    import(api, &blocks);
    let mut changed = blocks.clone();
    changed["block"] = json!(27);
    refused(
        &edit(api, &changed),
        "import changes block, since 3 addresses are held",
    );
    changed = blocks.clone();
    changed["exclude"] = json!(["10.0.0.5", "10.0.0.6"]);
    let excludes = "import excludes more addresses of a pool with block, since 3";
    refused(&edit(api, &changed), excludes);
    changed["exclude"] = json!([]);
    allowed(&edit(api, &changed));
}

fn ipv6_is_compared(api: &KubernetesApi) {
    let spec = |start: &str| json!({"subnet": "fd00::/64", "rangeStart": start});
    import(api, &spec("fd00::1:0"));
    refused(&edit(api, &spec("fd00::1:1")), &format!("{TAKES}fd00::/64"));
    refused(&edit(api, &spec("fd00::a:0")), &format!("{TAKES}fd00::/64"));
    allowed(&edit(api, &spec("FD00:0::ffff")));
    allowed(&edit(api, &spec("fd00::9")));
}

/// Replaces the definition with the field manager of `ipamctl`, which has compared the definition
/// with the held addresses.
fn import(api: &KubernetesApi, spec: &Value) {
    let patch = json!([{"op": "replace", "path": "/spec", "value": spec}]).to_string();
    let manager = "--field-manager=ipamctl-import";
    let words = [
        "patch",
        "ipool",
        "lan",
        "--type=json",
        "-p",
        &patch,
        manager,
    ];
    api.kubectl(&words);
}

fn nothing_held_is_nothing_taken(api: &KubernetesApi) {
    set_reserved(api, &json!(0));
    allowed(&edit(api, &json!({"subnet": "10.7.0.0/24", "block": 28})));
    api.kubectl(&["delete", "ipool", "lan"]);
}

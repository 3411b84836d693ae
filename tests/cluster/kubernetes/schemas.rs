//! The kinds: their output in `kubectl`, and what their schemas refuse.

use harness::{KUBECTL, KUBERNETES_PROGRAMS, KubernetesApi, needs};
use serde_json::{Value, json};

use super::objects::{address, allowed, pool, refused};

#[test]
fn the_kinds_are_listed_and_invalid_objects_refused() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let api = KubernetesApi::start().unwrap();
    api.install();
    lists_show_what_people_look_for(&api);
    invalid_pools_are_refused(&api);
    an_address_has_one_name_and_never_changes(&api);
}

fn lists_show_what_people_look_for(api: &KubernetesApi) {
    let definition = json!({"subnet": "10.0.0.0/24", "vlan": {"id": 7}});
    api.apply(&json!([
        pool("lan", &definition),
        address("10.0.0.5", "10.0.0.5", "worker-1"),
    ]));
    let line = |resource: &str| {
        let table = api.kubectl(&["get", resource, "--no-headers"]);
        let line: Vec<&str> = table.split_whitespace().collect();
        line.join(" ")
    };
    assert!(line("ipool").starts_with("lan 10.0.0.0/24 "));
    let of_address = line("ipaddr");
    let expected = "10.0.0.5 10.0.0.5 lan worker-1 storage shop web-0 ";
    assert!(of_address.starts_with(expected), "{of_address}");
    // Unknown keys of a pool are kept.
    assert_eq!(api.get("ipool", &["lan"])[0]["spec"], definition);
    let explained = api.kubectl(&["explain", "ipool.spec.subnet"]);
    assert!(explained.contains("in CIDR notation"), "{explained}");
}

fn invalid_pools_are_refused(api: &KubernetesApi) {
    let in_ranges = |range: Value| json!({"ranges": [{"subnet": "10.1.0.0/24"}, range]});
    for (definition, text) in [
        (json!({}), "either ranges or subnet"),
        (json!({"ranges": []}), "should have at least 1 items"),
        (
            json!({"subnet": "10.0.0.0/24", "ranges": [{"subnet": "10.1.0.0/24"}]}),
            "either ranges or subnet",
        ),
        (json!({"subnet": "10.0.0.0"}), "a subnet in CIDR notation"),
        (json!({"subnet": "10.0.0.1/24"}), "must not have host bits"),
        (json!({"subnet": "10.0.0.0/31"}), "room for two addresses"),
        (
            json!({"subnet": "10.0.0.0/24", "rangeStart": "10.0.1.1"}),
            "rangeStart must be in the subnet",
        ),
        (
            in_ranges(json!({"subnet": "fd00::/64", "rangeEnd": "fd01::1"})),
            "rangeEnd must be in the subnet",
        ),
        (
            in_ranges(json!({"subnet": "10.0.0.0/24", "gateway": "router"})),
            "must be an IP address",
        ),
        (
            json!({"subnet": "10.0.0.0/24", "exclude": ["10.0.0.5-"]}),
            "an address, a subnet or an interval",
        ),
    ] {
        let output = api.try_create(&api.kubeconfig(), &pool("other", &definition));
        refused(&output, text);
    }
}

fn an_address_has_one_name_and_never_changes(api: &KubernetesApi) {
    let in_space = |name: &str, ip: &str| {
        let mut address = address(name, ip, "worker-1");
        address["spec"]["space"] = json!("blue");
        address
    };
    for valid in [
        address("fd00-0-0-0-0-0-0-5", "fd00::5", "worker-1"),
        in_space("blue.10.0.0.5", "10.0.0.5"),
        in_space("blue.fd00-0-0-0-0-0-0-5", "fd00::5"),
    ] {
        allowed(&api.try_create(&api.kubeconfig(), &valid));
    }
    let name = "the name must be the address";
    for (invalid, text) in [
        (address("10.0.0.6", "10.0.0.7", "worker-1"), name),
        (address("lan.10.0.0.6", "10.0.0.6", "worker-1"), name),
        (address("fd00-0-0-0-0-0-0-6", "fd00::7", "worker-1"), name),
        (address("fd00--6", "fd00::6", "worker-1"), name),
        (
            address("blue.fd00-0-0-0-0-0-0-6", "fd00::6", "worker-1"),
            name,
        ),
        (in_space("10.0.0.6", "10.0.0.6"), name),
        (in_space("red.fd00-0-0-0-0-0-0-6", "fd00::6"), name),
        (
            address("fd00-0-0-0-0-0-0-6", "fd00:0::6", "worker-1"),
            "in its shortest spelling",
        ),
    ] {
        refused(&api.try_create(&api.kubeconfig(), &invalid), text);
    }
    let other = address("10.0.0.5", "10.0.0.5", "worker-2");
    let never = "an address never changes";
    refused(&api.try_replace(&api.kubeconfig(), &other), never);
    refused(&api.try_apply(&api.kubeconfig(), &other), never);
}

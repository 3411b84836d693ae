//! The kinds: their output in `kubectl`, and what their schemas refuse.

use harness::{KUBECTL, KUBERNETES_PROGRAMS, KubernetesApi, needs};
use serde_json::{Value, json};

use super::objects::{address, allowed, of_owner, pool, refused};

#[test]
fn the_kinds_are_listed_and_invalid_objects_refused() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let api = KubernetesApi::start().unwrap();
    api.install();
    lists_show_what_people_look_for(&api);
    invalid_pools_are_refused(&api);
    the_space_of_a_pool_never_changes(&api);
    an_address_has_one_name_and_never_changes(&api);
}

fn lists_show_what_people_look_for(api: &KubernetesApi) {
    let definition = json!({"subnet": "10.0.0.0/24"});
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
    assert_eq!(of_address, "10.0.0.5 lan worker-1 shop web-0");
    let explained = api.kubectl(&["explain", "ipool.spec.subnet"]);
    assert!(explained.contains("in CIDR notation"), "{explained}");
}

fn invalid_pools_are_refused(api: &KubernetesApi) {
    let one = json!({"subnet": "10.1.0.0/24"});
    let in_ranges = json!([
        ["room for a gateway", {"subnet": "fd00::/127", "gateway": "fd00::1"}],
        ["rangeEnd must be in the subnet", {"subnet": "fd00::/64", "rangeEnd": "fd01::1"}],
        ["must be an IP address", {"subnet": "10.0.0.0/24", "gateway": "router"}],
        ["all ranges must be of one IP version", {"subnet": "fd00::/64"}],
        ["unknown field \"spec.ranges[1].rangestart\"", {"subnet": "10.0.0.0/24", "rangestart": "10.0.0.5"}],
    ]);
    let definitions = json!([
        ["either ranges or subnet", {}],
        ["either ranges or subnet", {"subnet": "10.0.0.0/24", "ranges": [one]}],
        ["should have at least 1 items", {"ranges": []}],
        ["a subnet in CIDR notation", {"subnet": "10.0.0.0"}],
        ["must not have host bits", {"subnet": "10.0.0.1/24"}],
        ["room for a gateway", {"subnet": "10.0.0.0/31"}],
        ["rangeStart must be in the subnet", {"subnet": "10.0.0.0/24", "rangeStart": "10.0.1.1"}],
        ["a space must be a DNS name in lower case", {"subnet": "10.0.0.0/24", "space": "Blue"}],
        ["unknown field \"spec.excludes\"", {"subnet": "10.0.0.0/24", "excludes": ["10.0.0.5"]}],
        ["an address, a subnet or an interval", {"subnet": "10.0.0.0/24", "exclude": ["10.0.0.5-"]}],
    ]);
    let in_ranges = in_ranges.as_array().unwrap().iter();
    let in_ranges = in_ranges.map(|row| (&row[0], json!({"ranges": [one, row[1]]})));
    let definitions = definitions.as_array().unwrap().iter();
    let definitions = definitions.map(|row| (&row[0], row[1].clone()));
    for (text, definition) in definitions.chain(in_ranges) {
        let output = api.try_with("create", &api.kubeconfig(), &pool("other", &definition));
        refused(&output, text.as_str().unwrap());
    }
    let links = json!([{"subnet": "10.2.0.0/31", "gateway": "none"}, {"subnet": "10.2.0.5/32", "gateway": "none"}]);
    let links = pool("links", &json!({"ranges": links}));
    allowed(&api.try_with("create", &api.kubeconfig(), &links));
}

/// Otherwise new containers would get the addresses of running ones.
fn the_space_of_a_pool_never_changes(api: &KubernetesApi) {
    let with_space = |space: Value| {
        let mut definition = json!({"subnet": "10.7.0.0/24", "exclude": ["10.7.0.9"]});
        if space != Value::Null {
            definition["space"] = space;
        }
        pool("flat", &definition)
    };
    let [none, red, blue] = [Value::Null, json!("red"), json!("blue")].map(with_space);
    for (first, others) in [(&none, [&red, &blue]), (&red, [&none, &blue])] {
        allowed(&api.try_with("create", &api.kubeconfig(), first));
        for other in others {
            let replaced = api.try_with("replace", &api.kubeconfig(), other);
            refused(&replaced, "space never changes");
        }
        let mut ranges = first.clone();
        ranges["spec"]["subnet"] = json!("10.8.0.0/24");
        ranges["spec"]["exclude"] = json!([]);
        allowed(&api.try_with("replace", &api.kubeconfig(), &ranges));
        api.kubectl(&["delete", "ipool", "flat"]);
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
        allowed(&api.try_with("create", &api.kubeconfig(), &valid));
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
        refused(&api.try_with("create", &api.kubeconfig(), &invalid), text);
    }
    let both = json!({"owner": "vm", "place": 0});
    for (keys, missing) in [
        (json!({"owner": "vm"}), true),
        (both.clone(), false),
        (json!({}), true),
    ] {
        let mut invalid = address("10.0.0.6", "10.0.0.6", "worker-1");
        let spec = invalid["spec"].as_object_mut().unwrap();
        if missing {
            spec.remove("node");
            spec.remove("containerID");
        }
        spec.extend(keys.as_object().unwrap().clone());
        let text = "either node and containerID, or owner and place";
        refused(&api.try_with("create", &api.kubeconfig(), &invalid), text);
    }
    let owned = of_owner("10.0.0.6", "vm");
    allowed(&api.try_with("create", &api.kubeconfig(), &owned));
    let listed = api.kubectl(&["get", "ipaddr", "10.0.0.6", "--no-headers"]);
    let cells: Vec<&str> = listed.split_whitespace().collect();
    assert_eq!(cells, ["10.0.0.6", "lan", "vm"]);
    let other = address("10.0.0.5", "10.0.0.5", "worker-2");
    let never = "an address never changes";
    refused(&api.try_with("replace", &api.kubeconfig(), &other), never);
    refused(&api.try_with("apply", &api.kubeconfig(), &other), never);
}

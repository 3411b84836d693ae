//! Valid documents for the targets to change: configurations, results, catalogues.

use serde_json::{Value, json};

/// Network configurations that all plugins accept.
pub(crate) fn configurations() -> Vec<Value> {
    let [_, result, ..] = <[Value; 5]>::try_from(results()).expect("five");
    vec![
        json!({
            "cniVersion": "1.1.0",
            "name": "testnet",
            "type": "bridge",
            "ipam": {
                "type": "ipam-delegated",
                "delegates": ["one", "two"],
                "ranges": [[{"subnet": "10.0.0.0/29"}], [{"subnet": "fd00::/64"}]],
                "routes": [{"dst": "0.0.0.0/0"}, {"dst": "fd01::/16", "gw": "fd00::9"}],
                "resolvConf": "plain",
            },
            "prevResult": result,
            "cni.dev/valid-attachments": [{"containerID": "c1", "ifname": "eth0"}],
        }),
        json!({
            "cniVersion": "0.4.0",
            "name": "testnet",
            "ipam": {
                "delegates": ["one"],
                "delegateTimeout": "30s",
                "result": "merge",
                "stateDir": "plain",
                "dataDir": "plain",
                "subnet": "10.0.0.0/29",
                "rangeStart": "10.0.0.2",
                "rangeEnd": "10.0.0.5",
                "gateway": "10.0.0.1",
            },
            "runtimeConfig": {"ips": ["10.0.0.3/29"], "ipRanges": [[{"subnet": "10.1.0.0/24"}]]},
            "args": {"cni": {"ips": ["10.1.0.9"]}},
            "prevResult": {"pools": [{"name": "blue", "subnet": "10.2.0.0/29", "requested-ip": "10.2.0.4"}]},
        }),
    ]
}

/// Results of delegates.
pub(crate) fn results() -> Vec<Value> {
    vec![
        json!({"cniVersion": "1.0.0", "ips": [{"address": "10.0.0.2/29", "gateway": "10.0.0.1"}],
            "routes": [{"dst": "0.0.0.0/0"}], "dns": {"nameservers": ["10.0.0.1"]}}),
        json!({"cniVersion": "1.1.0", "ips": [], "routes": [], "dns": {}, "pools": [
            {"ranges": [{"subnet": "10.0.0.0/29"}, {"subnet": "10.0.1.0/29", "rangeEnd": "10.0.1.4"}]},
            {"name": "blue", "subnet": "fd00::/64", "requested-ip": "fd00::7"}]}),
        json!({"cniVersion": "0.4.0",
            "ips": [{"version": "6", "address": "fd00::2/64", "gateway": "fd00::1"}],
            "dns": {"domain": "a.example", "search": ["b.example"], "options": ["ndots:2"]}}),
        json!({"ips": [{"address": "10.0.0.3/29"}, {"address": "10.0.0.2/29", "interface": 0}],
            "routes": [{"dst": "10.0.0.0/8", "gw": "10.0.0.4", "mtu": 1400}], "x": [1.5, null]}),
        json!({}),
    ]
}

/// Network configurations with pools and rules.
pub(crate) fn catalogues() -> Vec<Value> {
    vec![
        json!({"cniVersion": "1.1.0", "name": "testnet", "ipam": {
            "pools": {
                "web": {"subnet": "10.0.0.0/29", "exclude": ["10.0.0.4/31"], "routes": [{"dst": "10.0.0.0/8"}]},
                "db": {"ranges": [{"subnet": "10.1.0.0/29"}, {"subnet": "10.2.0.0/29"}], "dns": {"nameservers": ["10.1.0.1"]}},
                "six": {"subnet": "fd00::/64"},
                "lan": {}},
            "rules": [
                {"when": {"A": "x", "label:b": ["y", null]}, "pools": ["web"], "ip": "10.0.0.3"},
                {"when": {"A": {"not": ["x", "x*"]}}, "pools": ["db", "six"], "ips": ["fd00::9", "10.2.0.3"], "sticky": "${A}/${containerID}"},
                {"when": {"annotation:p": ["web", "lan"]}, "pools": ["${annotation:p}"]}]},
            "prevResult": {"facts": {"rack": "r7", "label:*": null, "label:b": "y"}},
            "args": {"cni": {"labels": [{"key": "b", "value": "y"}], "ips": ["10.0.0.2"]}},
            "runtimeConfig": {"io.kubernetes.cri.pod-annotations": {"p": "lan"}}}),
        json!({"cniVersion": "1.1.0", "name": "testnet", "isGateway": false, "ipam": {
            "node": "r7-1",
            "pools": {
                "link": {"subnet": "10.0.0.4/31", "gateway": "none", "routes": [{"dst": "10.0.0.0/8"}]},
                "web": {"subnet": "10.1.0.0/28"},
                "six": {"subnet": "fd00::/64"},
                "lan": {}},
            "rules": [
                {"when": {"node": "r7-*", "A": "x*"}, "pools": ["web", "six"], "ips": [
                    {"range": "10.1.0.8/30", "index": "${containerID}"}, {"range": "fd00::8-fd00::f", "index": "x-3"}]},
                {"pools": [["link", "web"], ["six", "lan"]], "sticky": "${node}"}]}}),
        json!({"cniVersion": "1.0.0", "name": "testnet", "ipam": {
            "pools": {"web": {"subnet": "10.0.0.0/29"}},
            "rules": [{"when": {"ifname": "eth?", "network": null}, "pools": ["web"]}],
            "poolsDir": "plain"},
            "prevResult": {"pools": [{"name": "earlier"}], "dns": {"domain": "a"}}}),
    ]
}

/// Files of `poolsDir`.
pub(crate) fn pool_files() -> Vec<Value> {
    vec![
        json!({"pools": {"more": {"subnet": "10.9.0.0/29"}}, "rules": [{"pools": ["more"], "ip": "10.9.0.3"}]}),
        json!({"rules": [{"when": {"A": "x"}, "pools": ["web"]}, {"pools": ["${A}"]}]}),
    ]
}

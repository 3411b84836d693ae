//! Several allocators for one interface: their results are merged.

use harness::{Node, Sandbox, answer_of, needs};
use serde_json::json;

#[test]
fn one_interface_gets_ipv4_from_static_and_ipv6_from_ours() {
    needs!("root", "bridge", "static");
    let node = Node::new();
    node.sh("ip netns add c1; ip netns add c2");
    let sandbox = Sandbox::default().with_reference("static");
    // In either order: results that the last delegate ignores are kept, and results that it passes
    // on are not duplicated.
    for (container, n, delegates) in [
        ("c1", 2, ["static", "ipam-ds-ranges", "ipam-da-host-local"]),
        ("c2", 3, ["ipam-ds-ranges", "ipam-da-host-local", "static"]),
    ] {
        let ipam = json!({
            "addresses": [{"address": format!("10.1.0.{n}/24"), "gateway": "10.1.0.1"}],
            "ranges": [[{"subnet": "fd00:1::/64"}]],
            "routes": [{"dst": "10.0.0.0/8", "gw": "10.1.0.1"}, {"dst": "fd00::/8", "gw": "fd00:1::1"}],
            "dns": {"nameservers": ["10.1.0.1"]},
            "result": "merge"
        });
        let mut config = sandbox.config("1.0.0", &delegates, &ipam);
        config["bridge"] = json!("br0");
        let call = |command: &str, config: &serde_json::Value| {
            sandbox
                .call_main_plugin(command, container, config)
                .run_on(&node)
        };
        let result = call("ADD", &config).result();
        let mut ips = answer_of(&result);
        ips.sort();
        assert_eq!(
            ips,
            [format!("10.1.0.{n}"), format!("fd00:1::{n}")],
            "{result}"
        );
        assert_eq!(result["routes"].as_array().unwrap().len(), 2, "{result}");
        let addresses = node.sh(&format!("ip -n {container} addr show dev eth0"));
        for address in [format!("10.1.0.{n}/24"), format!("fd00:1::{n}/64")] {
            assert!(addresses.contains(&address), "{addresses}");
        }
        config["prevResult"] = result;
        call("CHECK", &config).nothing();
        if container == "c2" {
            node.sh("ip netns exec c1 ping -c 1 -W 5 10.1.0.3");
            node.sh("ip netns exec c1 ping -c 1 -W 5 fd00:1::3");
            call("DEL", &config).nothing();
            assert_eq!(sandbox.reserved("testnet"), ["fd00:1::2"]);
        }
    }
}

//! The reference `bridge` as the main plugin, with `ipam-delegated` and our two delegates as its
//! IPAM plugin, in separate network namespaces.

use harness::{Node, RANGES_CHAIN, Sandbox, answer_of, assert_has, needs};
use serde_json::{Value, json};

struct Network {
    node: Node,
    sandbox: Sandbox,
    config: Value,
}

impl Network {
    fn new(ranges: &Value) -> Self {
        let node = Node::new();
        node.sh("ip netns add c1; ip netns add c2");
        let sandbox = Sandbox::default();
        let mut config = sandbox.config("1.0.0", &RANGES_CHAIN, &json!({ "ranges": ranges }));
        config["bridge"] = json!("br0");
        config["isGateway"] = json!(true);
        Self {
            node,
            sandbox,
            config,
        }
    }

    /// A call of `bridge` for a container, as a runtime makes it.
    fn call(&self, command: &str, container: &str, prev_result: Option<&Value>) -> harness::Output {
        let mut config = self.config.clone();
        if let Some(prev_result) = prev_result {
            config["prevResult"] = prev_result.clone();
        }
        self.sandbox
            .call_main_plugin(command, container, &config)
            .run_on(&self.node)
    }

    fn reservations(&self) -> Vec<(String, String)> {
        self.sandbox.reservations("testnet")
    }

    #[track_caller]
    fn pings(&self, from: &str, to: &str) {
        self.node
            .sh(&format!("ip netns exec {from} ping -c 1 -W 5 {to}"));
    }
}

fn held(ip: &str, container: &str) -> (String, String) {
    (ip.to_owned(), format!("{container}\r\neth0"))
}

#[test]
fn two_containers_reach_each_other_over_both_families() {
    needs!("root", "bridge");
    let ranges = json!([[{"subnet": "10.1.0.0/24"}], [{"subnet": "fd00:1::/64"}]]);
    let network = Network::new(&ranges);
    let c1 = network.call("ADD", "c1", None).result();
    assert_eq!(answer_of(&c1), ["10.1.0.2", "fd00:1::2"]);
    assert_eq!(
        network.reservations(),
        [held("10.1.0.2", "c1"), held("fd00:1::2", "c1")]
    );
    let c2 = network.call("ADD", "c2", None).result();
    assert_eq!(answer_of(&c2), ["10.1.0.3", "fd00:1::3"]);
    assert_eq!(network.reservations().len(), 4);
    network.pings("c1", "10.1.0.3");
    network.pings("c1", "fd00:1::3");
    network.pings("c2", "fd00:1::2");
    network.pings("c1", "10.1.0.1");
    network.call("CHECK", "c2", Some(&c2)).nothing();
    network.call("DEL", "c2", Some(&c2)).nothing();
    // CHECK fails after the reservations are removed.
    let error = network.call("CHECK", "c2", Some(&c2)).error();
    assert_has(error["msg"].as_str().unwrap(), ["10.1.0.3"]);
    assert_eq!(
        network.reservations(),
        [held("10.1.0.2", "c1"), held("fd00:1::2", "c1")]
    );
    network.call("DEL", "c1", Some(&c1)).nothing();
    assert!(network.reservations().is_empty());
}

#[test]
fn a_flat_network_needs_no_gateway() {
    needs!("root", "bridge");
    let ranges = json!([[{"subnet": "10.1.0.0/31", "gateway": "none"}]]);
    let mut network = Network::new(&ranges);
    network.config["isGateway"] = json!(false);
    let c1 = network.call("ADD", "c1", None).result();
    assert_eq!(answer_of(&c1), ["10.1.0.0"]);
    assert_eq!(c1["ips"][0].get("gateway"), None);
    let c2 = network.call("ADD", "c2", None).result();
    network.pings("c1", "10.1.0.1");
    network.call("CHECK", "c2", Some(&c2)).nothing();
    network.call("DEL", "c2", Some(&c2)).nothing();
    network.call("DEL", "c1", Some(&c1)).nothing();
    assert!(network.reservations().is_empty());
}

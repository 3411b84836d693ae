//! Nodes whose clocks are a year ahead or behind: only the value of `since` is affected.

use harness::{CC, Call, ETCD, ETCDCTL, WrongClock, needs};
use serde_json::{Value, json};

use super::Cluster;

const YEAR: i64 = 365 * 24 * 60 * 60;

/// A cluster, and the clocks of its nodes.
struct Clocks {
    cluster: Cluster,
    wrong_clock: WrongClock,
}

impl Clocks {
    fn new() -> Self {
        let cluster = Cluster::default();
        let wrong_clock = WrongClock::new(cluster.sandbox.root());
        Self {
            cluster,
            wrong_clock,
        }
    }

    fn call(&self, offset: i64, command: &str, container: &str, config: &Value) -> Call {
        let call = self.cluster.call(command, container, config);
        self.wrong_clock.set(call, offset)
    }

    /// The time in a value of etcd.
    fn since(&self, key: &str) -> String {
        let value: Value = serde_json::from_str(&self.cluster.etcd.value(key)).unwrap();
        value["since"].as_str().unwrap().to_owned()
    }
}

#[test]
fn addresses_are_given_and_released_whatever_the_clocks_of_the_nodes_say() {
    needs!(ETCD, ETCDCTL, CC);
    let clocks = Clocks::new();
    let cluster = &clocks.cluster;
    let pools = json!([{"name": "red", "subnet": "10.1.0.0/24", "sticky": "db-0"}]);
    let mut times = Vec::new();
    for (node, at) in [("past", -YEAR), ("now", 0), ("future", YEAR)] {
        let config = cluster.config(node, &["ipam-da-etcd"], &pools);
        let result = clocks.call(at, "ADD", "c", &config).run().result();
        let ip = harness::answer_of(&result).remove(0);
        times.push([
            clocks.since(&format!("/ipam/v1/addresses/red/{ip}")),
            clocks.since(&format!("/ipam/v1/tokens/{node}")),
        ]);
        // The clock is changed while the container runs.
        for other in [-YEAR, 0, YEAR] {
            assert_eq!(clocks.call(other, "ADD", "c", &config).run().code(), 110);
            let mut check = config.clone();
            check["prevResult"] = result.clone();
            clocks.call(other, "CHECK", "c", &check).run().nothing();
            let mut gc = config.clone();
            gc["cni.dev/valid-attachments"] = json!([{"containerID": "c", "ifname": "eth0"}]);
            clocks.call(other, "GC", "", &gc).run().nothing();
        }
        assert_eq!(cluster.reserved("red"), [ip.as_str()]);
        clocks.call(-at, "DEL", "c", &config).run().nothing();
        assert!(cluster.reserved("red").is_empty() && cluster.held().is_empty());
        // The sticky address is given again after the clock was set back.
        let again = clocks.call(at - YEAR, "ADD", "d", &config).run();
        assert_eq!(again.ips(), [ip]);
        let mut gc = config.clone();
        gc["cni.dev/valid-attachments"] = json!([]);
        clocks.call(-at, "GC", "", &gc).run().nothing();
        assert!(cluster.reserved("red").is_empty() && cluster.held().is_empty());
    }
    assert!(times[0] < times[1] && times[1] < times[2], "{times:?}");
}

#[test]
fn blocks_are_claimed_and_returned_whatever_the_clock_says() {
    needs!(ETCD, ETCDCTL, CC);
    let clocks = Clocks::new();
    let cluster = &clocks.cluster;
    cluster.etcd.put(
        "/ipam/v1/pools/blue",
        r#"{"subnet":"10.0.0.0/24","block":28}"#,
    );
    let blocks = || cluster.etcd.keys("/ipam/v1/blocks/blue/");
    for (node, at) in [("past", -YEAR), ("future", YEAR)] {
        let chain = ["ipam-ds-etcd", "ipam-da-host-local"];
        let mut config = cluster.config(node, &chain, &json!([{"name": "blue"}]));
        config["ipam"]["keepEmptyBlocks"] = json!("1h");
        config["cni.dev/valid-attachments"] = json!([]);
        let first = clocks.call(at, "ADD", "c", &config).run().ips();
        assert_ne!(clocks.call(-at, "ADD", "d", &config).run().ips(), first);
        let [block] = &blocks()[..] else {
            panic!("{:?}", blocks());
        };
        let since = clocks.since(&format!("/ipam/v1/blocks/blue/{block}"));
        let token = clocks.since(&format!("/ipam/v1/tokens/{node}"));
        assert_eq!(since[..4], token[..4]);
        // By the machine's uptime, no hour has passed, whatever the clock shows.
        for at in [at, -at, 0, at, -at] {
            assert!(clocks.call(at, "GC", "", &config).run().status.success());
        }
        assert_eq!(blocks().len(), 1);
        config["ipam"]["keepEmptyBlocks"] = json!("0s");
        for at in [at, -at, at] {
            assert!(clocks.call(at, "GC", "", &config).run().status.success());
        }
        assert!(blocks().is_empty());
    }
}

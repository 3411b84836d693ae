//! A pool of a cluster on a wire on which another machine has every other address.

use std::process::Command;

use harness::Background;
use serde_json::json;

use crate::pool_cluster::{PoolCluster, promises};

// They change the network namespace of the calling thread.
promises! {
    the_add_after_a_refused_one_gets_another_address,
}

/// The machine: it answers ARP probes for odd addresses.
const MACHINE: &str = r#"
import socket
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0806))
wire.bind(("wire0", 0))
mac = wire.getsockname()[4]
print("ready", flush=True)
while True:
    frame = wire.recv(2000)
    if frame[20:22] == b"\0\1" and frame[28:32] == bytes(4) and frame[41] % 2:
        to = frame[6:12]
        wire.send(to + mac + frame[12:20] + b"\0\2" + mac + frame[38:42] + to + bytes(4))
"#;

struct Machine {
    process: Option<Background>,
}

impl Machine {
    fn start() -> Self {
        let link =
            "ip link add eth1 type veth peer name wire0; ip link set eth1 up; ip link set wire0 up";
        let mut add = Command::new("sh");
        assert!(add.args(["-ec", link]).status().unwrap().success());
        let mut python = Command::new("/usr/bin/python3");
        Self {
            process: Some(Background::until_ready(python.args(["-c", MACHINE]))),
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.process = None;
        let _ = Command::new("ip").args(["link", "del", "eth1"]).status();
    }
}

fn the_add_after_a_refused_one_gets_another_address(cluster: &mut dyn PoolCluster) {
    cluster.define("blue", &json!({"subnet": "10.0.0.0/26"}));
    let _machine = Machine::start();
    let mut config = cluster.config("n1", &json!([{"name": "blue"}]));
    config["type"] = json!("macvlan");
    config["master"] = json!("eth1");
    config["ipam"]["delegates"] = json!(["ipam-ds-static", cluster.allocator(), "ipam-dc-probe"]);
    let mut given = Vec::new();
    let mut refused = 0;
    for number in 0..10 {
        let container = format!("c{number}");
        // Half of the free addresses are the machine's: so many in a row don't happen.
        let added = (0..60).find_map(|_| {
            let add = cluster.add(&container, &config);
            if add.status.success() {
                return Some(add.ips());
            }
            assert_eq!(add.code(), 115, "{add:?}");
            refused += 1;
            None
        });
        let ip = added.expect("an address").remove(0);
        given.push(format!("{ip} n1/testnet/{container}:eth0"));
    }
    given.sort();
    assert_eq!(cluster.addresses(), given);
    let is_odd = |line: &String| {
        let ip = line.split(' ').next().unwrap();
        let last: u8 = ip.rsplit('.').next().unwrap().parse().unwrap();
        last % 2 == 1
    };
    assert!(
        refused > 0 && !given.iter().any(is_odd),
        "{refused} {given:?}"
    );
    for number in 0..10 {
        cluster.del(&format!("c{number}"), &config).nothing();
    }
}

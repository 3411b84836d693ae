//! The reference `dhcp` as a delegate: its daemon, and a DHCP server on a veth pair, in separate
//! namespaces.

use std::fs;
use std::process::{Child, Stdio};

use harness::waiting::wait_for;
use harness::{DNSMASQ, Node, REFERENCE_PLUGINS, Sandbox, needs};
use serde_json::json;

/// A process on the node that ends with the test.
struct Background(Child);

impl Background {
    fn start(node: &Node, arguments: &[&str]) -> Self {
        let mut command = node.command(arguments[0]);
        command
            .args(&arguments[1..])
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        Self(command.stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_lease_is_obtained_checked_and_released_through_the_chain() {
    needs!("root", "dhcp", DNSMASQ);
    let node = Node::new();
    node.sh("ip netns add c1
         ip link add server type veth peer name eth0 netns c1
         ip addr add 10.1.0.1/24 dev server
         ip link set server up
         ip -n c1 link set eth0 up");
    let sandbox = Sandbox::default().with_reference("dhcp");
    let leases = sandbox.root().join("leases");
    let socket = sandbox.root().join("dhcp.sock");
    let _server = Background::start(
        &node,
        &[
            DNSMASQ,
            "--keep-in-foreground",
            "--conf-file=/dev/null",
            "--user=root",
            "--pid-file",
            "--port=0",
            "--interface=server",
            "--bind-interfaces",
            "--no-ping",
            "--dhcp-range=10.1.0.50,10.1.0.50,1h",
            "--dhcp-option=option:router,10.1.0.1",
            &format!("--dhcp-leasefile={}", leases.display()),
        ],
    );
    let _daemon = Background::start(
        &node,
        &[
            &format!("{REFERENCE_PLUGINS}/dhcp"),
            "daemon",
            "-socketpath",
            socket.to_str().unwrap(),
        ],
    );
    wait_for(|| socket.exists() && leases.exists());
    let leased = || fs::read_to_string(&leases).unwrap();

    let ipam = json!({ "daemonSocketPath": socket });
    let mut config = sandbox.config("1.0.0", &["dhcp"], &ipam);
    let added = sandbox.call("ipam-delegated", "ADD", &config).run_on(&node);
    let result = added.result();
    let ip = "10.1.0.50";
    assert_eq!(added.ips(), [ip]);
    assert_eq!(result["ips"][0]["gateway"], "10.1.0.1");
    assert!(leased().contains(ip), "{}", leased());

    config["prevResult"] = result;
    sandbox
        .call("ipam-delegated", "CHECK", &config)
        .run_on(&node)
        .nothing();

    sandbox
        .call("ipam-delegated", "DEL", &config)
        .run_on(&node)
        .nothing();
    wait_for(|| !leased().contains(ip));
}
